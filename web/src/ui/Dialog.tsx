/** A window over the page. The browser keeps the focus inside and closes it with Escape. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { IconButton } from "./IconButton.tsx";
import { Close } from "./icons.tsx";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  kind?: "side" | "middle";
}

export function Dialog({ title, onClose, children, kind = "middle" }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  // A click beside the window is a click on the dialog itself.
  const closeBeside = (event: MouseEvent) => {
    if (event.target === dialog.current) onClose();
  };
  return (
    <dialog
      ref={dialog}
      class={`dialog ${kind}`}
      aria-labelledby={name}
      onClose={onClose}
      onClick={closeBeside}
    >
      <div class="dialog-inside">
        <header class="dialog-head">
          <h2 id={name}>{title}</h2>
          <IconButton label="Close" onClick={onClose}>
            <Close />
          </IconButton>
        </header>
        {children}
      </div>
    </dialog>
  );
}
