// What outlast adds to Pi, loaded with `-e`: the gates before each tool, the application's tools, and a way to go on
// with a turn without a word. docs/internals/pi.md says why each part is as it is.
//
// Everything here fails closed. What the gateway does not answer, or answers otherwise than expected, does not run.

import { writeSync } from "node:fs";
import { request } from "node:http";

import { atTerminal } from "./terminal.js";

const HOOK_MS = 75_000; // the gateway answers within 60 s, if at all
const GATE_MS = 90_000;
const CONTINUE = "outlast.continue";
const PROMPT = "outlast.prompt";
const RPC_ACCEPT = "application/json, text/event-stream";
const NO_DECISION = "This call did not run: outlast gave no decision.";

const hooks = take("OUTLAST_HOOKS_URL");
const toolsUrl = take("OUTLAST_TOOLS_URL");
const terminalUrl = take("OUTLAST_TERMINAL_URL"); // empty where nobody is at a terminal
const token = take("OUTLAST_ATTEMPT_TOKEN");

/** A variable that what Pi's shell starts must not inherit; `/reload` loads this file anew, and finds it again. */
function take(name) {
  const kept = (globalThis[Symbol.for("outlast")] ??= {});
  kept[name] ??= process.env[name] ?? "";
  delete process.env[name];
  return kept[name];
}

/** Post JSON; the body of the answer, which must have status 200. `fetch` gives up on an answer that takes minutes. */
function post(url, body, { timeoutMs = 0, signal } = {}) {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: RPC_ACCEPT,
    };
    const sent = request(url, { method: "POST", headers, signal }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("aborted", () => reject(new Error("the answer was cut")));
      answer.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        if (answer.statusCode === 200) resolve({ text, type: answer.headers["content-type"] ?? "" });
        else reject(new Error(`HTTP ${answer.statusCode}`));
      });
    });
    if (timeoutMs) sent.setTimeout(timeoutMs, () => sent.destroy(new Error("no answer in time")));
    sent.on("error", reject);
    sent.end(JSON.stringify(body));
  });
}

async function hook(event, payload, { url = hooks } = {}) {
  const { text } = await post(`${url}/${event}`, payload, { timeoutMs: HOOK_MS });
  return JSON.parse(text);
}

const tell = (event, payload) => hook(event, payload, { url: terminalUrl });

/** Whether the worker lets a call run: the third gate. Its id, or why not. */
async function gate(id, ctx) {
  return terminalUrl ? (await tell("gate", { call: id })).run : ctx.ui.input(CONTINUE, id, { timeout: GATE_MS });
}

/** The result of the one request in an answer of the Model Context Protocol, which may be a stream of events. */
function rpcResult({ text, type }) {
  const messages = type.startsWith("text/event-stream")
    ? text
        .split(/\r?\n\r?\n/)
        .map((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")))
        .map((lines) => lines.map((line) => line.slice(5).trimStart()).join("\n"))
        .filter((data) => data)
        .map((data) => JSON.parse(data))
    : [JSON.parse(text)];
  const answer = messages.find((message) => message.id === 1);
  if (!answer) throw new Error("outlast gave no result");
  if (answer.error) throw new Error(answer.error.message);
  return answer.result;
}

/** Run one of the application's tools in the worker, under Pi's own id of the call. */
async function run(name, id, params, signal) {
  const call = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name, arguments: params, _meta: { callId: id, progressToken: 1 } },
  };
  const result = rpcResult(await post(toolsUrl, call, { signal }));
  const content = (result.content ?? []).map((part) =>
    part.type === "image"
      ? { type: "image", data: part.data, mimeType: part.mimeType }
      : { type: "text", text: part.text ?? "" },
  );
  return { content, isError: result.isError === true };
}

const block = (reason) => ({ block: true, reason: reason || NO_DECISION });
const isContinue = (message) => message.role === "custom" && message.customType === CONTINUE;

/** Leave the message that made Pi go on beside the conversation: a summary would hold it, or end before it. */
function stepOver(manager) {
  const leaf = manager.getLeafEntry();
  if (leaf?.type !== "custom_message" || leaf.customType !== CONTINUE) return;
  if (leaf.parentId === null) manager.resetLeaf();
  else manager.branch(leaf.parentId);
}

export default async function outlast(pi) {
  const told = await hook("hello", {}, { url: terminalUrl || hooks });
  if (told.outlast !== "welcome") throw new Error("outlast does not let this process in");
  const ours = new Set(told.tools.map((tool) => tool.name));
  const supplied = new Map(); // call id -> its end, as it is in the log or as the application's tool ended
  let answers = 0;
  // Of a call of OpenAI's Responses, Pi's id is two: the call's, a bar, the item's.
  const named = (id) => (told.barred ? id.split("|", 1)[0] : id);

  pi.registerProvider(told.provider.name, { ...told.provider.config, apiKey: token });

  for (const tool of told.tools) {
    pi.registerTool({
      name: tool.name,
      label: tool.name,
      description: tool.description,
      parameters: tool.schema,
      ...(tool.snippet && { promptSnippet: tool.snippet }),
      async execute(id, params, signal) {
        const { content, isError } = await run(tool.name, named(id), params, signal);
        if (isError) supplied.set(id, { content, isError });
        return { content, details: {} };
      },
    });
  }

  pi.on("tool_call", async (event, ctx) => {
    const id = named(event.toolCallId);
    if (event.parentToolCallId) return block("This call did not run: only the model may call tools.");
    let answer;
    try {
      answer = await hook("before", { call: id, name: event.toolName, input: event.input });
    } catch (error) {
      return block(`This call did not run: outlast could not be asked (${error.message}).`);
    }
    if (id && answer.run === id) {
      try {
        const said = await gate(id, ctx);
        return said === id ? undefined : block(said);
      } catch (error) {
        return block(`This call did not run: outlast could not be asked (${error.message}).`);
      }
    }
    if (answer.result) supplied.set(event.toolCallId, answer.result);
    return block(answer.reason);
  });

  pi.on("tool_result", async (event) => {
    if (ours.has(event.toolName)) return;
    const { toolName: name, content, isError } = event;
    const id = named(event.toolCallId);
    try {
      const answer = await hook("after", { call: id, name, content, isError });
      if (id && answer.settled === id) return;
    } catch {
      // Nobody may go on with a result that the log does not have.
    }
    setTimeout(() => process.exit(70), 10_000);
    await new Promise(() => {});
  });

  pi.on("message_end", async (event) => {
    const message = event.message;
    if (message.role === "toolResult") {
      const known = supplied.get(message.toolCallId);
      return known && { message: { ...message, content: known.content, isError: known.isError } };
    }
    if (message.role !== "assistant" || message.stopReason === "error" || message.stopReason === "aborted") return;
    answers += 1;
    for (const text of told.steers[String(answers)] ?? []) pi.sendUserMessage(text, { deliverAs: "steer" });
  });

  // With a key of another provider in its environment Pi may choose a model of that: its calls would go past the log.
  const check = (ctx) => {
    const { provider, id } = ctx.model ?? {};
    if (terminalUrl || !provider || provider === told.provider.name) return;
    writeSync(2, `outlast: ${id} is of ${provider}, and outlast asks ${told.provider.name} only. Name a model of it.\n`);
    process.exit(70);
  };

  // Where Pi works beside the files, the model is told where these are, and no tool of Pi's own may be had.
  const beside = (options) => {
    if (!told.cwd) return;
    options.cwd = told.cwd;
    options.sections.docs = "Pi's documentation is not in this workspace.";
  };
  const checkTools = () => {
    if (!told.cwd) return;
    const active = new Set(pi.getActiveTools());
    const own = pi.getAllTools().filter((tool) => active.has(tool.name) && tool.sourceInfo?.source === "builtin");
    const others = [...active].filter((name) => !ours.has(name));
    if (!own.length && !others.length) return;
    writeSync(2, `outlast: tools of Pi's own are on: ${[...own.map((tool) => tool.name), ...others].join(", ")}.\n`);
    process.exit(70);
  };
  pi.on("session_start", (event, ctx) => check(ctx));

  // A turn goes on with the prompt that it began with, whatever it has since made of the files that are in it.
  pi.on("before_agent_start", async (event, ctx) => {
    const options = event.systemPromptOptions;
    beside(options);
    const entries = ctx.sessionManager.getBranch();
    const before = entries.findLast((entry) => entry.type === "custom" && entry.customType === PROMPT);
    if (event.messageType === "custom") {
      if (before) Object.assign(options, structuredClone(before.data));
      return;
    }
    const data = { contextFiles: options.contextFiles, skills: options.skills };
    if (JSON.stringify(data) !== JSON.stringify(before?.data)) pi.appendEntry(PROMPT, data);
  });

  pi.on("context_with_system", async (event, ctx) => {
    check(ctx);
    checkTools();
    stepOver(ctx.sessionManager);
    const messages = event.messages.filter((message) => !isContinue(message));
    return messages.length === event.messages.length ? undefined : { messages };
  });

  if (terminalUrl) atTerminal(pi, told.provider.name, tell);

  pi.registerCommand(CONTINUE, {
    description: "Go on with the turn.",
    handler: async () => pi.sendMessage({ customType: CONTINUE, content: "", display: false }, { triggerTurn: true }),
  });
}
