// outlast's part inside OpenCode: no tool begins unless the gateway says that the log lets it.
//
// Every question is asked every time and fails closed: no answer, a late one, a broken one or none that says yes means
// that the tool does not run. It needs no package, so that nothing has to be installed beside it.

const HOOKS = process.env.OUTLAST_HOOKS_URL
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

export const Outlast = async () => {
  if (!TERMINAL) await post("hello", {}, 10_000)
  return {
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
