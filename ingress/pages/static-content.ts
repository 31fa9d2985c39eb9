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

/**
 * The assets of a page. Each name starts with one hash over all assets, so modules that import each other by relative paths are of the
 * same release, and no asset is ever stale under its name. `nameOf` returns the name of a path.
 */
type AssetSet = { assets: ReadonlyMap<string, StaticContent>; nameOf: (path: string) => string };

const types: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json; charset=utf-8',
};

/** Names a set by its files, in their order: 96 bits of a hash. */
export function releaseOf(files: ReadonlyMap<string, string>): string {
  const hash = createHash('sha256');
  for (const [path, text] of files) hash.update(`${path}\0${text}\0`);
  return hash.digest('base64url').slice(0, 16);
}

/** The media type of an asset by its extension; undefined if it is none of ours. */
export function assetType(path: string): string | undefined {
  return types[path.split('.').at(-1) ?? ''];
}

/** `files` are texts by path; the extension determines the media type. */
export function createAssetSet(files: ReadonlyMap<string, string>): AssetSet {
  const release = releaseOf(files);
  const nameOf = (path: string) => {
    if (!files.has(path)) throw new Error(`there is no asset "${path}"`);
    return `${release}/${path}`;
  };
  const assets = [...files].map(([path, text]) => {
    const type = assetType(path);
    if (type === undefined) throw new Error(`no media type is known for "${path}"`);
    return [nameOf(path), createStaticContent(text, type)] as const;
  });
  return { assets: new Map(assets), nameOf };
}
