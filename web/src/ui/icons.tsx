/** Icons in the colour of the surrounding text. */
import type { ComponentChildren } from "preact";

function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      {children}
    </svg>
  );
}

const lines = (d: string) => () => (
  <Icon>
    <path d={d} />
  </Icon>
);

export const Plus = lines("M12 5v14M5 12h14");
export const Menu = lines("M4 7h16M4 12h16M4 17h16");
export const Close = lines("M6 6l12 12M18 6L6 18");
export const Send = lines("M12 19V5M6 11l6-6 6 6");
export const Clip = lines(
  "M19 11.5l-7 7a4.5 4.5 0 0 1-6.4-6.4l7.6-7.6a3 3 0 0 1 4.3 4.3l-7.5 7.4a1.5 1.5 0 0 1-2.1-2.1l6.6-6.6",
);
export const Copy = lines("M9 9h10v11H9zM15 9V4H5v11h4");
export const Check = lines("M5 12.5l4.5 4.5L19 7.5");
export const Again = lines("M19.5 12a7.5 7.5 0 1 1-2.2-5.3M19.5 3.5v4h-4");
export const Pencil = lines("M5 19l1-4L16 5l3 3L9 18l-4 1z");
export const Branch = lines(
  "M7 8v8M7 4a2 2 0 1 0 0 4 2 2 0 1 0 0-4M7 16a2 2 0 1 0 0 4 2 2 0 1 0 0-4M17 4a2 2 0 1 0 0 4 2 2 0 1 0 0-4M17 8c0 4-10 3-10 8",
);
export const Left = lines("M14.5 6l-6 6 6 6");
export const Right = lines("M9.5 6l6 6-6 6");
export const Down = lines("M12 5v14M6 13l6 6 6-6");
export const Sliders = lines(
  "M4 8h9M19 8h1M4 16h1M11 16h9M13 8a3 3 0 1 0 6 0 3 3 0 1 0-6 0M5 16a3 3 0 1 0 6 0 3 3 0 1 0-6 0",
);
export const Question = lines("M9 9.2a3 3 0 1 1 4.4 2.7c-.9.5-1.4 1-1.4 2.1M12 17.5v.1");
export const Trash = lines("M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13");
export const Sun = lines(
  "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
);
export const Moon = lines("M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z");
export const HalfMoon = lines(
  "M12 4a8 8 0 1 0 0 16 8 8 0 1 0 0-16zM12 4v16M12 8l5-2M12 12l8-2M12 16l7-2",
);
export const Upload = lines("M12 15V4M7 9l5-5 5 5M5 15v4h14v-4");
export const Download = lines("M12 4v11M7 10l5 5 5-5M5 15v4h14v-4");

export function Stop() {
  return (
    <Icon>
      <rect x="7" y="7" width="10" height="10" rx="1.5" class="filled" />
    </Icon>
  );
}

/** The logo: the three ternary weights −1, 0 and 1. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <rect width="24" height="24" rx="6" class="mark-ground" />
      <g class="mark-sign">
        <rect x="5" y="12" width="3.4" height="7" rx="1.7" />
        <circle cx="12" cy="12" r="1.9" />
        <rect x="15.6" y="5" width="3.4" height="7" rx="1.7" />
      </g>
    </svg>
  );
}
