/**
 * Bidirectional control characters, which can make text and code look different from what they are.
 * They are shown as code points. The directional marks U+200E and U+200F are harmless and stay.
 */
const BIDI_CONTROLS = /[\u202A-\u202E\u2066-\u2069]/g;

export function escapeBidi(text: string): string {
  return text.replace(
    BIDI_CONTROLS,
    (control) => `[U+${control.charCodeAt(0).toString(16).toUpperCase()}]`,
  );
}
