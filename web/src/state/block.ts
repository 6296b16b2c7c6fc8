/** A block of tokens being filled: the text of each that is known, null for a mask. */
export type Block = readonly (string | null)[];

export const NO_BLOCK: Block = [];

/** What is left of a block when so many characters of it have become text of the reply. */
export function withoutStart(block: Block, characters: number): Block {
  let left = characters;
  for (const [at, token] of block.entries()) {
    // Text ends before the first mask.
    if (token === null) return block.slice(at);
    if (token.length > left) return [token.slice(left), ...block.slice(at + 1)];
    left -= token.length;
  }
  return NO_BLOCK;
}
