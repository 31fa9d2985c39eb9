/** These bytes in pieces of these sizes, in turn. The pieces are views, so that they use no more memory. */
export async function* inChunks(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let index = 0;
  for (let from = 0; from < bytes.length; index += 1) {
    const to = from + (sizes[index % sizes.length] ?? 1);
    yield bytes.subarray(from, to);
    from = to;
  }
}

/** Yields the chunks until this many bytes were yielded, then throws. */
export async function* breakingOff(chunks: AsyncIterable<Uint8Array>, after: number, error: Error) {
  let bytes = 0;
  for await (const chunk of chunks) {
    if (bytes >= after) throw error;
    yield chunk;
    bytes += chunk.length;
  }
}
