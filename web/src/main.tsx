/** Entry point. */
import { render } from "preact";
import { loadChats } from "./state/chats.ts";
import { watchServer } from "./state/connection.ts";
import { watchMcp } from "./state/mcp.ts";
import { listenForShortcuts } from "./state/shortcuts.ts";
import "./state/theme.ts";
import { App } from "./ui/App.tsx";
import { growTextAreas } from "./browser/grow.ts";

const root = document.getElementById("app");
if (root) render(<App />, root);
void loadChats();
watchServer();
watchMcp();
listenForShortcuts();
growTextAreas();
// Read by tools/page/budget.test.mjs: from here on, the page reacts to input.
performance.mark("interactive");
