import test from 'ava';
import fc from 'fast-check';
import { inBlocks } from '../../../../shared/store/files/file-store.ts';
import { inChunks } from '../file-bytes.ts';

test('bytes are cut into blocks of one size for any sizes of chunks, and no block is empty', async (t) => {
  const sizes = fc.array(fc.nat(30), { minLength: 1, maxLength: 8 }).filter((all) => all.some((size) => size > 0));
  const property = fc.asyncProperty(
    fc.uint8Array({ maxLength: 200 }),
    sizes,
    fc.integer({ min: 1, max: 40 }),
    hasBlocks,
  );
  await t.notThrowsAsync(fc.assert(property, { numRuns: 500 }));

  async function hasBlocks(given: Uint8Array, chunkSizes: number[], blockBytes: number): Promise<boolean> {
    const bytes = Buffer.from(given);
    const blocks: Buffer[] = [];
    for await (const block of inBlocks(inChunks(bytes, chunkSizes), blockBytes)) blocks.push(Buffer.from(block));
    const areFull = blocks.slice(0, -1).every((block) => block.length === blockBytes);
    const last = blocks.at(-1)?.length;
    return areFull && (last === undefined || (last > 0 && last <= blockBytes)) && bytes.equals(Buffer.concat(blocks));
  }
});
