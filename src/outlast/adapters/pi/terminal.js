// What outlast adds to a Pi at its user's own terminal: it is told what is typed there, before Pi may ask its model, and
// when Pi has come to an end. Everything fails closed: a prompt that opens no turn is not sent.

const TURN = "outlast.turn";
const STAYS = "outlast keeps one conversation of this Pi. `outlast wrap` begins another.";
const UNHEARD = "outlast could not be asked, so this was not sent.";

/** Keep Pi's turns and outlast's the same; `tell(event, payload)` asks the worker. */
export function atTerminal(pi, provider, tell) {
  let last; // the newest answer
  let settling = Promise.resolve();

  pi.on("input", async (event, ctx) => {
    if (event.source === "extension") return;
    const refuse = (why) => {
      ctx.ui.notify(why, "error");
      ctx.ui.setEditorText(event.text);
      return { action: "handled" };
    };
    await settling;
    if (ctx.model?.provider !== provider) return refuse(`outlast asks ${provider} only: choose a model of it.`);
    let answer;
    try {
      answer = await tell("prompt", { text: event.text, joins: event.streamingBehavior !== undefined });
    } catch (error) {
      return refuse(`${UNHEARD} (${error.message})`);
    }
    if (answer.turn) pi.appendEntry(TURN, { input: answer.turn });
    return answer.taken === true ? undefined : refuse(answer.reason ?? UNHEARD);
  });

  pi.on("message_end", (event) => {
    if (event.message.role === "assistant") last = event.message;
  });

  pi.on("agent_settled", (event) => {
    const said = { aborted: event.aborted === true, message: last };
    last = undefined;
    settling = tell("settled", said).catch(() => process.exit(70)); // the worker is gone
    return settling;
  });

  const stay = (event, ctx) => {
    ctx.ui.notify(STAYS, "error");
    return { cancel: true };
  };
  pi.on("session_before_switch", stay);
  pi.on("session_before_fork", stay);
  pi.on("session_before_tree", stay);
  pi.on("session_before_compact", (event, ctx) => {
    if (event.reason !== "manual") return;
    ctx.ui.notify("No turn is open, so outlast lets no summary be asked for. Pi compacts by itself.", "error");
    return { cancel: true };
  });
  pi.on("model_select", async (event, ctx) => {
    if (event.model.provider === provider || !event.previousModel) return;
    ctx.ui.notify(`outlast asks ${provider} only.`, "error");
    await pi.setModel(event.previousModel);
  });
}
