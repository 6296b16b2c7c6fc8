/** The whole page. */
import { useEffect } from "preact/hooks";
import { currentChat } from "../state/chats.ts";
import { isListOpen, openWindow } from "../state/open.ts";
import { place } from "../state/place.ts";
import { Banner, Spoken } from "./Banner.tsx";
import { ChatView } from "./ChatView.tsx";
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
      {isListOpen.value && (
        <div class="shade only-small" onClick={() => (isListOpen.value = false)} />
      )}
      <div class="body">
        <Header />
        <Banner />
        <main class="main-part">
          {place.value.kind === "server" ? <ServerView /> : <ChatView />}
        </main>
      </div>
      {openWindow.value === "settings" && <SettingsDialog />}
      {openWindow.value === "help" && <HelpDialog />}
      {openWindow.value === "key" && <KeyDialog />}
      <Spoken />
    </div>
  );
}
