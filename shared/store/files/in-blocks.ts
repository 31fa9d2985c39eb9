/**
 * Splits the bytes into blocks of one size; only the last may be smaller. All blocks share one buffer, which is valid until the next block
 * is requested.
 */
export async function* inBlocks(chunks: AsyncIterable<Uint8Array>, blockBytes: number): AsyncGenerator<Uint8Array> {
  const block = Buffer.alloc(blockBytes);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length; ) {
      const part = chunk.subarray(from, from + blockBytes - filled);
      block.set(part, filled);
      filled += part.length;
      from += part.length;
      if (filled < blockBytes) continue;
      yield block;
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
