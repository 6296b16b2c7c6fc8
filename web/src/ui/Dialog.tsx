/** Modal dialog. The browser traps the focus and closes it on Escape. */
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
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
  // Before the next event, so that no key reaches the page behind.
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  // A click on the backdrop has the dialog element as its target.
  const closeOnBackdrop = (event: MouseEvent) => {
    if (event.target === dialog.current) onClose();
  };
  return (
    <dialog
      ref={dialog}
      class={`dialog ${kind}`}
      aria-labelledby={name}
      onClose={onClose}
      onClick={closeOnBackdrop}
    >
      <div class="dialog-content">
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
