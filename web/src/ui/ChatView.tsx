/** The open chat: its messages and the composer. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { path } from "../history/tree.ts";
import { currentChat, isLoaded } from "../state/chats.ts";
import { props } from "../state/connection.ts";
import { runOf, send } from "../state/run.ts";
import { Composer } from "./Composer.tsx";
import { IconButton } from "./IconButton.tsx";
import { MessageView } from "./MessageView.tsx";
import { Down, Mark } from "./icons.tsx";

/** Distance from the end, in pixels, within which the view follows new text. */
const NEAR = 80;

export function ChatView() {
  const chat = currentChat.value;
  const run = chat && runOf(chat.id);
  const shown = chat ? path(chat) : [];
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  const [isAway, setAway] = useState(false);
  const toEnd = () => {
    const box = scroller.current;
    if (box) box.scrollTop = box.scrollHeight;
  };
  const onScroll = () => {
    const box = scroller.current;
    if (!box) return;
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    // Only scrolling up stops following; text that arrives faster than the view scrolls does not.
    if (isNear) follows.current = true;
    else if (box.scrollTop < lastTop.current) follows.current = false;
    lastTop.current = box.scrollTop;
    setAway(!follows.current);
  };
  useLayoutEffect(() => {
    follows.current = true;
    toEnd();
  }, [chat?.id, isLoaded.value]);
  // Scrolls in the same frame in which the text grew, so that nothing jumps.
  useLayoutEffect(() => {
    const messages = scroller.current?.firstElementChild;
    if (!messages) return;
    const observer = new ResizeObserver(() => follows.current && toEnd());
    observer.observe(messages);
    return () => observer.disconnect();
  }, [chat?.id, shown.length > 0]);
  return (
    <>
      <div
        class="scroller"
        ref={scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="region"
        aria-label="Messages"
      >
        {shown.length ? (
          <div class="messages">
            {shown.map((message) => (
              <MessageView key={message.id} chat={chat!} message={message} run={run} />
            ))}
          </div>
        ) : (
          isLoaded.value && <Welcome chat={chat?.id ?? null} />
        )}
      </div>
      <div class="foot">
        {isAway && (
          <div class="to-end">
            <IconButton label="Scroll to latest message" onClick={toEnd}>
              <Down />
            </IconButton>
          </div>
        )}
        <Composer
          chat={chat?.id ?? null}
          run={run}
          lastQuestion={shown.findLast((message) => message.role === "user")?.id}
          onSent={() => {
            follows.current = true;
          }}
        />
      </div>
    </>
  );
}

const SUGGESTIONS = ["Tell me a story", "Tell me about a girl and her dog", "Write about the sea"];

function Welcome({ chat }: { chat: string | null }) {
  const model = props.value?.model_names[0];
  return (
    <div class="welcome">
      <Mark />
      <h1>{model ? `Chat with ${model}` : "WrinkleFree"}</h1>
      <p>The model runs on this server's CPU. Chats are stored only in this browser.</p>
      <ul class="starts">
        {SUGGESTIONS.map((text) => (
          <li key={text}>
            <button type="button" class="button" onClick={() => send(chat, text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
