// Chats as an application does with the npm package `ai`, and prints the messages that it ends up with.
//
//   node chat.mjs '{"api": …, "token": …, "chat": …, "agent": …, "transport": "default" | "workflow", "prompts": […]}'
//
// It is cut off at any moment by whoever stands between it and the server, and goes on as the package has it: it
// resumes, and where there is nothing to resume it sends again.
import { AbstractChat, DefaultChatTransport } from 'ai';
import { WorkflowChatTransport } from '@ai-sdk/workflow/client';

const told = JSON.parse(process.argv[2]);
const headers = { authorization: `Bearer ${told.token}` };
console.error = () => {}; // the workflow transport tells of each cut

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) =>
    (this.messages = this.messages.map((old, at) => (at === index ? structuredClone(message) : old)));
  snapshot = thing => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor(options) {
    super({ ...options, state: new State() });
  }
}

let count = 0;
const address = `${told.api}?agent=${told.agent}`;
const transports = {
  default: () => new DefaultChatTransport({ api: address, headers }),
  workflow: () =>
    Object.assign(
      new WorkflowChatTransport({
        api: told.api,
        maxConsecutiveErrors: 10_000,
        prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
          headers: { ...headers, 'content-type': 'application/json' },
          body: { id, messages, trigger, messageId, agent: told.agent },
        }),
        prepareReconnectToStreamRequest: ({ api }) => ({ api, headers }),
      }),
      { resumeStreamIsReplay: true },
    ),
};
const chat = new Chat({
  id: told.chat,
  generateId: () => `m${(count += 1)}`,
  transport: transports[told.transport](),
});

let resumed = 0;
const waited = [];
const settle = async () => {
  const open = () => chat.lastMessage.metadata?.status === 'open'; // it was cut off where that looks like an end
  while (chat.status === 'error' || chat.lastMessage.role === 'user' || open()) {
    const lost = chat.status !== 'error' && !open(); // there is nothing to resume: it never came to be sent
    chat.clearError();
    resumed += 1;
    if (lost) await chat.regenerate();
    else await chat.resumeStream();
  }
};
for (const [at, text] of told.prompts.entries()) {
  await chat.sendMessage({ id: `user-${at + 1}`, parts: [{ type: 'text', text }] });
  await settle();
  for (const part of chat.lastMessage.parts) {
    if (part.state === 'approval-requested') {
      await chat.addToolApprovalResponse({ id: part.approval.id, approved: told.approve, reason: 'so I say' });
    } else if (part.toolName === 'ask' && part.state === 'input-available') {
      await chat.addToolOutput({ tool: 'ask', toolCallId: part.toolCallId, output: told.answer });
    } else continue;
    waited.push(structuredClone(chat.lastMessage.metadata.status));
    await chat.sendMessage();
    await settle();
  }
}
process.stdout.write(JSON.stringify({ messages: chat.messages, resumed, waited }));
