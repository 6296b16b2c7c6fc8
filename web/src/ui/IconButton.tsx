/** Button with an icon and an accessible label. */
import type { ComponentChildren } from "preact";

interface IconButtonProps {
  label: string;
  children: ComponentChildren;
  onClick: () => void;
  disabled?: boolean;
  kind?: "plain" | "main";
}

export function IconButton(button: IconButtonProps) {
  return (
    <button
      type="button"
      class={button.kind === "main" ? "icon-button main" : "icon-button"}
      aria-label={button.label}
      title={button.label}
      disabled={button.disabled ?? false}
      onClick={button.onClick}
    >
      {button.children}
    </button>
  );
}
