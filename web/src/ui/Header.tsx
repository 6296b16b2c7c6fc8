/** The top line: which part is shown, what the server is, what can be opened. */
import { connection, props } from "../state/connection.ts";
import { isListOpen, openWindow } from "../state/open.ts";
import { type Place, go, place } from "../state/place.ts";
import { type Theme, nextTheme, theme } from "../state/theme.ts";
import { IconButton } from "./IconButton.tsx";
import { HalfMoon, Menu, Moon, Question, Sliders, Sun } from "./icons.tsx";

export function Header() {
  return (
    <header class="header">
      <span class="only-small">
        <IconButton label="Open the list of chats" onClick={() => (isListOpen.value = true)}>
          <Menu />
        </IconButton>
      </span>
      <nav class="tabs" aria-label="Parts of the page">
        <Tab name="Chat" to={{ kind: "chat", id: null }} />
        <Tab name="Server" to={{ kind: "server" }} />
      </nav>
      <Model />
      <span class="header-tools">
        <IconButton label="Settings" onClick={() => (openWindow.value = "settings")}>
          <Sliders />
        </IconButton>
        <IconButton label={THEMES[theme.value]} onClick={nextTheme}>
          {theme.value === "light" ? <Sun /> : theme.value === "dark" ? <Moon /> : <HalfMoon />}
        </IconButton>
        <IconButton label="Help" onClick={() => (openWindow.value = "help")}>
          <Question />
        </IconButton>
      </span>
    </header>
  );
}

const THEMES: Record<Theme, string> = {
  system: "Colours: as the system",
  light: "Colours: light",
  dark: "Colours: dark",
};

/** The chat that was open before, when coming back from elsewhere. */
let lastChat: string | null = null;

function Tab({ name, to }: { name: string; to: Place }) {
  const at = place.value;
  if (at.kind === "chat") lastChat = at.id;
  const isHere = at.kind === to.kind;
  return (
    <button
      type="button"
      class="tab"
      aria-current={isHere ? "page" : undefined}
      onClick={() => !isHere && go(to.kind === "chat" ? { kind: "chat", id: lastChat } : to)}
    >
      {name}
    </button>
  );
}

const STATES: Record<string, string> = {
  connecting: "connecting",
  ready: "ready",
  loading: "loading",
  draining: "stopping",
  offline: "not reached",
  locked: "locked",
};

function Model() {
  const state = connection.value;
  return (
    <span class="model">
      <span class={`light ${state}`} role="img" aria-label={`Server ${STATES[state]}`} />
      <span class="model-name">{props.value?.model_names[0] ?? ""}</span>
    </span>
  );
}
