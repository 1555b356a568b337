// outlast's part inside OpenCode: no tool begins unless the gateway says that the log lets it.
//
// Every question is asked every time and fails closed: no answer, a late one, a broken one or none that says yes means
// that the tool does not run. It needs no package, so that nothing has to be installed beside it.

const HOOKS = process.env.OUTLAST_HOOKS_URL
const TOOLS = process.env.OUTLAST_TOOLS_URL
const TERMINAL = process.env.OUTLAST_TERMINAL_URL // where a person types; nothing without a terminal
const TOKEN = process.env.OUTLAST_ATTEMPT_TOKEN
const PATIENCE_MS = 3_600_000

async function post(event, body, patience = PATIENCE_MS, to = HOOKS) {
  const response = await fetch(`${to}/${event}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(patience),
    keepalive: false,
  })
  return await response.json()
}

async function ask(call, args) {
  let answer
  try {
    answer = await post("before", { ...call, args })
  } catch (error) {
    throw new Error(`This call did not run: outlast could not be asked (${error?.name ?? "error"}).`)
  }
  if (answer?.allow !== true || answer?.call !== call.callID) {
    throw new Error(String(answer?.reason ?? "This call did not run: outlast gave no decision."))
  }
}

// At a terminal each prompt, and what is typed while one is answered, opens or joins a turn before it is said.
async function say(sessionID, { message, parts }) {
  const text = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
  let answer
  try {
    answer = await post("prompt", { sessionID, messageID: message.id, text: text.join("\n") }, PATIENCE_MS, TERMINAL)
  } catch (error) {
    throw new Error(`outlast could not be asked, so this was not sent (${error?.name ?? "error"}).`)
  }
  if (answer?.taken !== true) throw new Error(String(answer?.reason ?? "outlast did not take this, so it was not sent."))
}

/** The result of the one request in an answer of the Model Context Protocol, which may be a stream of events. */
function rpcResult(text, type) {
  const messages = type.startsWith("text/event-stream")
    ? text
        .split(/\r?\n\r?\n/)
        .map((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")))
        .map((lines) => lines.map((line) => line.slice(5).trimStart()).join("\n"))
        .filter((data) => data)
        .map((data) => JSON.parse(data))
    : [JSON.parse(text)]
  const answer = messages.find((message) => message.id === 1)
  if (!answer) throw new Error("outlast gave no result")
  if (answer.error) throw new Error(answer.error.message)
  return answer.result
}

// Run a tool that stands in for OpenCode's own of that name, in the worker, under OpenCode's own id of the call.
async function run(name, args, context) {
  const params = { name, arguments: args, _meta: { callId: context.callID, progressToken: 1 } }
  const response = await fetch(TOOLS, {
    method: "POST",
    headers: {
      authorization: `Bearer ${TOKEN}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    signal: AbortSignal.any([context.abort, AbortSignal.timeout(PATIENCE_MS)]),
    keepalive: false,
    timeout: false,
  })
  if (response.status !== 200) throw new Error(`This call did not run: HTTP ${response.status}.`)
  const result = rpcResult(await response.text(), response.headers.get("content-type") ?? "")
  const parts = result.content ?? []
  const output = parts.filter((part) => part.type !== "image").map((part) => part.text ?? "").join("\n")
  if (result.isError) throw new Error(output)
  const attachments = parts
    .filter((part) => part.type === "image")
    .map((part) => ({ type: "file", mime: part.mimeType, url: `data:${part.mimeType};base64,${part.data}` }))
  return { title: "", output, metadata: {}, attachments: attachments.length ? attachments : undefined }
}

// Where OpenCode has no tools of its own, those that stand in have their names, and so take their place.
function standingIn(told, directory) {
  const tools = new Map((told?.tools ?? []).map((tool) => [tool.name, tool]))
  if (!told?.cwd) return {}
  return {
    tool: Object.fromEntries(
      [...tools.values()].map(({ name, description, schema }) => [
        name,
        { description, args: schema.properties, execute: (args, context) => run(name, args, context) },
      ]),
    ),
    // OpenCode would have every argument required.
    "tool.definition": async ({ toolID }, output) => {
      if (tools.has(toolID)) output.jsonSchema = tools.get(toolID).schema
    },
    // It works in an empty directory beside the files; the model is told where these are.
    "experimental.chat.system.transform": async (_input, output) => {
      output.system.forEach((text, at) => {
        output.system[at] = text
          .replaceAll(directory, told.cwd)
          .replace(/^(  Workspace root folder: ).*$/m, (_line, head) => head + told.cwd)
      })
    },
  }
}

export const Outlast = async ({ directory }) => {
  const told = TERMINAL ? undefined : await post("hello", {}, 10_000)
  return {
    ...standingIn(told, directory),
    "chat.message": async (input, output) => {
      if (TERMINAL) await say(input.sessionID, output)
    },
    "tool.execute.before": async (input, output) => {
      const { tool, sessionID, callID } = input
      await ask({ tool, sessionID, callID }, output.args)
    },
    "tool.execute.after": async (input, output) => {
      const { tool, sessionID, callID } = input
      const { output: said, attachments } = output ?? {}
      try {
        await post("after", { tool, sessionID, callID, output: said, attachments })
      } catch {
        // It has run. What came of it stands in the next request, which the gateway reads before all else.
      }
    },
    // Commands of the model are no business of the gateway's, and find the user's directories where a terminal has them.
    "shell.env": async (_input, output) => {
      Object.assign(output.env, JSON.parse(process.env.OUTLAST_SHELL_ENV ?? "{}"))
    },
  }
}
