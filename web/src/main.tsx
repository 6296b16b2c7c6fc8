/** Starts the page. */
import { render } from "preact";
import { loadChats } from "./state/chats.ts";
import { watchServer } from "./state/connection.ts";
import { listenForShortcuts } from "./state/shortcuts.ts";
import "./state/theme.ts";
import { App } from "./ui/App.tsx";
import { growTextAreas } from "./browser/grow.ts";

const root = document.getElementById("app");
if (root) render(<App />, root);
void loadChats();
watchServer();
listenForShortcuts();
growTextAreas();
// For whoever measures: from here on, keys and clicks do something.
performance.mark("interactive");
