// Runs an agent as an application does with the npm package `@ag-ui/client`, and prints what it ends up with.
//
//   node agent.mjs '{"url": …, "token": …, "thread": …, "prompts": […], "resume": […]}'
//
// It is cut off at any moment, and then runs the same messages again.
import { HttpAgent } from '@ag-ui/client';

const told = JSON.parse(process.argv[2]);
console.error = () => {}; // the package tells of each cut
const agent = new HttpAgent({
  url: told.url,
  threadId: told.thread,
  headers: { authorization: `Bearer ${told.token}` },
});
process.on('uncaughtException', () => {}); // a promise of the package's own is rejected that nobody holds
const outcomes = [];
const kinds = {};
let again = 0;
const subscriber = {
  onEvent: ({ event }) => void (kinds[event.type] = (kinds[event.type] ?? 0) + 1),
  onRunFinishedEvent: ({ event }) => void outcomes.push(event.outcome),
  onRunErrorEvent: ({ event }) => void outcomes.push({ type: 'error', message: event.message }),
};
const run = async parameters => {
  const ended = outcomes.length;
  while (outcomes.length === ended) {
    try {
      await agent.runAgent(parameters, subscriber);
    } catch {
      again += 1;
    }
  }
};
for (const [at, content] of told.prompts.entries()) {
  agent.addMessage({ id: `user-${at + 1}`, role: 'user', content });
  await run({});
}
for (const answer of told.resume ?? []) {
  const asked = outcomes.at(-1).interrupts;
  await run({ resume: asked.map(one => ({ interruptId: one.id, ...answer })) });
}
process.stdout.write(JSON.stringify({ messages: agent.messages, state: agent.state, outcomes, kinds, again }));
