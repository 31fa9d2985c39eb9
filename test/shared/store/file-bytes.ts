/** These bytes in pieces of these sizes, over and over; views of them, so that there is nothing else in memory. */
export async function* inChunks(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let index = 0;
  for (let from = 0; from < bytes.length; index += 1) {
    const to = from + (sizes[index % sizes.length] ?? 1);
    yield bytes.subarray(from, to);
    from = to;
  }
}

/** Yields what `chunks` does until it has come to so many bytes, then throws. */
export async function* breakingOff(chunks: AsyncIterable<Uint8Array>, after: number, error: Error) {
  let bytes = 0;
  for await (const chunk of chunks) {
    if (bytes >= after) throw error;
    yield chunk;
    bytes += chunk.length;
  }
}
