/** Tokens of a block being filled: the text of each known token, null for a mask. */
export type Block = readonly (string | null)[];

export const EMPTY_BLOCK: Block = [];

/** Removes the first `characters` characters, which have become text of the response. */
export function withoutStart(block: Block, characters: number): Block {
  let left = characters;
  for (const [at, token] of block.entries()) {
    // Final text ends before the first mask.
    if (token === null) return block.slice(at);
    if (token.length > left) return [token.slice(left), ...block.slice(at + 1)];
    left -= token.length;
  }
  return EMPTY_BLOCK;
}
