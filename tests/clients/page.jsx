// A page with `useChat`, as an application has one: it says each prompt when the one before is answered, and resumes
// whenever it was cut off. What it ends up with stands in `window.ended`.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useEffect, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';

const told = JSON.parse(decodeURIComponent(location.hash.slice(1)));
const transport = new DefaultChatTransport({
  api: `/v1/chat?agent=${told.agent}`,
  headers: { authorization: `Bearer ${told.token}` },
});

function Chat() {
  const { messages, status, sendMessage, resumeStream, regenerate, clearError } = useChat({
    id: told.chat,
    transport,
    resume: true,
  });
  const [acts, setActs] = useState(0);
  const [begun, setBegun] = useState(false);
  const said = useRef(0);
  const busy = useRef(false);
  const act = async does => {
    busy.current = true;
    await does();
    busy.current = false;
    setActs(before => before + 1);
  };
  useEffect(() => {
    if (!begun || busy.current || status === 'submitted' || status === 'streaming') return;
    if (status === 'error') {
      clearError();
      act(resumeStream);
    } else if (messages.at(-1)?.role === 'user') {
      act(regenerate); // there was nothing to resume: it never came to be sent
    } else if (messages.at(-1)?.metadata?.status === 'open') {
      act(resumeStream); // it was cut off where the browser took that for an end
    } else if (said.current < told.prompts.length) {
      const text = told.prompts[said.current];
      said.current += 1;
      act(() => sendMessage({ id: `user-${said.current}`, parts: [{ type: 'text', text }] }));
    } else {
      window.ended = messages;
      document.body.dataset.ended = 'yes';
    }
  }, [begun, status, messages, acts]);
  return (
    <ol>
      <button onClick={() => setBegun(true)}>Begin</button>
      {messages.map(message => (
        <li key={message.id}>
          {message.parts.map((part, at) => (part.type === 'text' ? <p key={at}>{part.text}</p> : null))}
        </li>
      ))}
    </ol>
  );
}

createRoot(document.getElementById('root')).render(<Chat />);
