// Copy this file into an agent of eve's, `agent/lib/outlast.js`: it leads the agent's model calls and tools past the log.
//
//   const outlast = createOpenAICompatible(door());
//   export default defineAgent({ model: outlast("…"), defaultTools: false });
//
//   export default defineTool(durable({ description: "…", inputSchema: …, async execute(input, ctx) { … } }));
//
// Everything here fails closed: what the gateway does not answer, or answers otherwise than expected, does not run.

const MARK = "[outlast]";
const HOOK_MS = 75_000;
const END_MS = 2_000;

/** Settings of the provider that every model call goes to. */
export function door() {
  return {
    name: "outlast",
    baseURL: process.env.OUTLAST_BASE_URL ?? "http://127.0.0.1:1/v1",
    apiKey: process.env.OUTLAST_ATTEMPT_TOKEN ?? "none",
    includeUsage: true, // else a stream says nothing of what it has cost
  };
}

async function hook(event, payload) {
  const answer = await fetch(`${process.env.OUTLAST_HOOKS_URL}/${event}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${process.env.OUTLAST_ATTEMPT_TOKEN}`,
      "content-type": "application/json",
    },
    body: JSON.stringify(payload),
    signal: AbortSignal.timeout(HOOK_MS),
  });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return (await answer.json()) ?? {};
}

/** The definition of a tool whose calls are in the log before they begin and when they have ended. */
export function durable(definition) {
  return {
    ...definition,
    description: `${definition.description ?? ""} ${MARK}`.trim(),
    async execute(input, ctx) {
      const call = ctx.callId;
      const name = ctx.toolName;
      const answer = await hook("before", { call, name, input }).catch(ended);
      if (!call || answer.run !== call) {
        if (answer.result && !answer.result.isError) return answer.result.value;
        if (typeof answer.reason !== "string") await ended();
        throw new Error(answer.reason);
      }
      let output = null;
      let failure;
      try {
        output = (await definition.execute(input, ctx)) ?? null;
      } catch (error) {
        failure = error instanceof Error ? error.message : String(error);
      }
      await settled({ call, name, output: failure ?? output, isError: failure !== undefined });
      if (failure !== undefined) throw new Error(failure);
      return output;
    },
  };
}

/** Nobody may go on with a result that the log does not have. */
async function settled(payload) {
  const told = await hook("after", payload).catch(ended);
  if (!payload.call || told.settled !== payload.call) await ended();
}

/** Without the gateway nothing goes on: eve ends, soon, and another attempt asks again. */
async function ended() {
  setTimeout(() => process.exit(70), END_MS);
  await new Promise(() => {});
}
