/** Root component of the page. */
import { useEffect } from "preact/hooks";
import { currentChat } from "../state/chats.ts";
import { isSidebarOpen, openDialog } from "../state/dialogs.ts";
import { route } from "../state/route.ts";
import { Banner, Announcement } from "./Banner.tsx";
import { ChatView } from "./ChatView.tsx";
import { CompareView } from "./CompareView.tsx";
import { Header } from "./Header.tsx";
import { HelpDialog } from "./HelpDialog.tsx";
import { KeyDialog } from "./KeyDialog.tsx";
import { ServerView } from "./ServerView.tsx";
import { SettingsDialog } from "./SettingsDialog.tsx";
import { Sidebar } from "./Sidebar.tsx";

export function App() {
  const title = currentChat.value?.title;
  useEffect(() => {
    document.title = title ? `${title} – WrinkleFree` : "WrinkleFree";
  }, [title]);
  return (
    <div class="page">
      <Sidebar />
      {isSidebarOpen.value && (
        <div class="shade only-small" onClick={() => (isSidebarOpen.value = false)} />
      )}
      <div class="body">
        <Header />
        <Banner />
        <main class="main-part">
          <View />
        </main>
      </div>
      {openDialog.value === "settings" && <SettingsDialog />}
      {openDialog.value === "help" && <HelpDialog />}
      {openDialog.value === "key" && <KeyDialog />}
      <Announcement />
    </div>
  );
}

function View() {
  switch (route.value.kind) {
    case "chat":
      return <ChatView />;
    case "server":
      return <ServerView />;
    case "compare":
      return <CompareView />;
  }
}
