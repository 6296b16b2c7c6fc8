/** Top bar: tabs, server status, settings, theme and help. */
import { connection, isSwitching, switchModel } from "../state/connection.ts";
import { isSidebarOpen, openDialog } from "../state/dialogs.ts";
import { chosenModel, models, props } from "../state/models.ts";
import { openChat, openCompare, openServer, route } from "../state/route.ts";
import { type Theme, nextTheme, theme } from "../state/theme.ts";
import { IconButton } from "./IconButton.tsx";
import { ModelSelect } from "./ModelSelect.tsx";
import { HalfMoon, Menu, Moon, Question, Sliders, Sun } from "./icons.tsx";

export function Header() {
  return (
    <header class="header">
      <span class="only-small">
        <IconButton label="Open chat list" onClick={() => (isSidebarOpen.value = true)}>
          <Menu />
        </IconButton>
      </span>
      <nav class="tabs" aria-label="Views">
        <Tab name="Chat" kind="chat" onClick={openChat} />
        <Tab name="Server" kind="server" onClick={openServer} />
        <Tab name="Compare" kind="compare" onClick={openCompare} />
      </nav>
      <Model />
      <span class="header-tools">
        <IconButton label="Settings" onClick={() => (openDialog.value = "settings")}>
          <Sliders />
        </IconButton>
        <IconButton label={THEME_LABELS[theme.value]} onClick={nextTheme}>
          {theme.value === "light" ? <Sun /> : theme.value === "dark" ? <Moon /> : <HalfMoon />}
        </IconButton>
        <IconButton label="Help" onClick={() => (openDialog.value = "help")}>
          <Question />
        </IconButton>
      </span>
    </header>
  );
}

const THEME_LABELS: Record<Theme, string> = {
  system: "Theme: system",
  light: "Theme: light",
  dark: "Theme: dark",
};

function Tab({ name, kind, onClick }: { name: string; kind: string; onClick: () => void }) {
  const isCurrent = route.value.kind === kind;
  return (
    <button
      type="button"
      class="tab"
      aria-current={isCurrent ? "page" : undefined}
      onClick={onClick}
    >
      {name}
    </button>
  );
}

const STATE_LABELS: Record<string, string> = {
  connecting: "connecting",
  ready: "ready",
  loading: "loading",
  draining: "shutting down",
  offline: "offline",
  locked: "locked",
};

function Model() {
  const state = connection.value;
  return (
    <span class="model">
      <span class={`light ${state}`} role="img" aria-label={`Server ${STATE_LABELS[state]}`} />
      {models.value.length ? (
        <ModelSelect
          label="Model"
          value={chosenModel.value}
          disabled={isSwitching.value}
          onChange={(name) => void switchModel(name)}
        />
      ) : (
        <span class="model-name">{props.value?.model_names[0] ?? ""}</span>
      )}
      {isSwitching.value && (
        <span class="switching" role="status">
          loading
        </span>
      )}
    </span>
  );
}
