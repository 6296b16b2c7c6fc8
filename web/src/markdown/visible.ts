/**
 * Signs that turn the direction of what follows. Inside an answer they can make text, and above all
 * code, read otherwise than it is: they are shown by their numbers. The marks that only help
 * a word of another script along (U+200E, U+200F) stay.
 */
const TURNS = /[\u202A-\u202E\u2066-\u2069]/g;

export function withoutTurns(text: string): string {
  return text.replace(TURNS, (sign) => `[U+${sign.charCodeAt(0).toString(16).toUpperCase()}]`);
}
