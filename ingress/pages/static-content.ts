import { createHash } from 'node:crypto';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

/** Bytes that do not change while the process runs, uncompressed and compressed, with their hash. */
export type StaticContent = { type: string; bytes: Buffer; br?: Buffer; gzip?: Buffer; hash: string };

/** Compression makes smaller responses no shorter, because it adds headers. */
const compressedFrom = 512;
const quality = 6;

/** Buffers arrive from another thread as plain `Uint8Array`s. */
export function withBuffers({ bytes, br, gzip, ...rest }: StaticContent): StaticContent {
  return {
    ...rest,
    bytes: Buffer.from(bytes),
    ...(br && { br: Buffer.from(br) }),
    ...(gzip && { gzip: Buffer.from(gzip) }),
  };
}

/** `type` is a media type with its charset. */
export function createStaticContent(content: Buffer | string, type: string): StaticContent {
  const bytes = Buffer.from(content);
  const hash = createHash('sha256').update(bytes).digest('base64url').slice(0, 16);
  if (bytes.length < compressedFrom) return { type, bytes, hash };
  const br = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } });
  return { type, bytes, br, gzip: gzipSync(bytes, { level: quality }), hash };
}
