/** The open chat: its messages and the composer. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Chat, type Message, path, pathTo } from "../history/tree.ts";
import { currentChat, isLoaded } from "../state/chats.ts";
import { props } from "../state/models.ts";
import { branchPoint } from "../state/dialogs.ts";
import { runOf, send } from "../state/run.ts";
import { Composer } from "./Composer.tsx";
import { IconButton } from "./IconButton.tsx";
import { MessageView } from "./MessageView.tsx";
import { SystemPrompt } from "./SystemPrompt.tsx";
import { Down, Mark } from "./icons.tsx";
import { suggestionsFor } from "./suggestions.ts";

/** Distance from the end, in pixels, within which the view follows new text. */
const NEAR = 80;

export function ChatView() {
  const chat = currentChat.value;
  const run = chat && runOf(chat.id);
  const shown = chat ? shownOf(chat) : [];
  const branch = shown.at(-1)?.id === branchPoint.value ? branchPoint.value : null;
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
            <SystemPrompt chat={chat!.id} />
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
        {branch && <BranchNote />}
        <Composer
          chat={chat?.id ?? null}
          after={branch}
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

/** Returns the messages that are shown: those of the chosen path, up to where a branch is about to begin. */
function shownOf(chat: Chat): Message[] {
  const branch = branchPoint.value && pathTo(chat, branchPoint.value);
  return branch && branch.length ? branch : path(chat);
}

function BranchNote() {
  return (
    <p class="branch-note" role="status">
      <span>
        The next message begins a branch here. The messages that followed are kept as a version.
      </span>
      <button type="button" class="text-button" onClick={() => (branchPoint.value = null)}>
        Cancel
      </button>
    </p>
  );
}

function Welcome({ chat }: { chat: string | null }) {
  const model = props.value?.model_names[0];
  return (
    <div class="welcome">
      <Mark />
      <h1>{model ? `Chat with ${model}` : "WrinkleFree"}</h1>
      <p>The model runs on this server's CPU. Chats are stored only in this browser.</p>
      <ul class="starts">
        {suggestionsFor(model).map((text) => (
          <li key={text}>
            <button type="button" class="button" onClick={() => send(chat, text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
      <SystemPrompt chat={chat} />
    </div>
  );
}
