/** The top line: which part is shown, what the server is, what can be opened. */
import { connection, props } from "../state/connection.ts";
import { isListOpen, openWindow } from "../state/open.ts";
import { goToChat, goToServer, place } from "../state/place.ts";
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
        <Tab name="Chat" kind="chat" onClick={goToChat} />
        <Tab name="Server" kind="server" onClick={goToServer} />
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

function Tab({ name, kind, onClick }: { name: string; kind: string; onClick: () => void }) {
  const isHere = place.value.kind === kind;
  return (
    <button type="button" class="tab" aria-current={isHere ? "page" : undefined} onClick={onClick}>
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
