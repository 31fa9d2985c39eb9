/** The tokens of an image in base64, by its size and the client's `detail`. */
type ImageRule = (data: string, detail?: unknown) => number;

/** For an image whose size is unknown: one at an address, or in a format that is not read here. About the most by either rule. */
export const tokensPerImage = 1_500;

/**
 * OpenAI's rule for images in tiles (its guide "Images and vision", for GPT-4o). 85 in low detail. Else an image is scaled down into a
 * square of 2,048 pixels, then until its shorter side has 768; it is 85 and 170 for each tile of 512 pixels, so 1,445 at most.
 */
export const tokensByTiles: ImageRule = (data, detail) => {
  if (detail === 'low') return 85;
  const size = imageSize(data);
  if (size === undefined) return tokensPerImage;
  const [shorter, longer] = [Math.min(...size), Math.max(...size)];
  const scale = Math.min(1, 2_048 / longer, 768 / shorter);
  const tilesOf = (side: number) => Math.max(1, Math.ceil(Math.round(side * scale) / 512));
  return 85 + 170 * tilesOf(shorter) * tilesOf(longer);
};

/**
 * Anthropic's rule (its guide "Vision"): an image is scaled down until its longer side has 1,568 pixels, and further if it were more than
 * 1,600 tokens; it is one token for 750 pixels.
 */
export const tokensByPixels: ImageRule = (data) => {
  const size = imageSize(data);
  if (size === undefined) return tokensPerImage;
  const scale = Math.min(1, 1_568 / Math.max(...size));
  return Math.min(1_600, Math.ceil((size[0] * scale * size[1] * scale) / 750));
};

type ImageSize = [width: number, height: number];

/** Reads the size of a PNG, JPEG, GIF or WebP image from its header; undefined for all else. Reads at most a few hundred bytes. */
export function imageSize(data: string): ImageSize | undefined {
  const bytesAt = readerOf(data);
  const head = bytesAt(0, 30);
  const size = sizeInHead(head) ?? (head.readUInt16BE(0) === 0xffd8 ? sizeOfJpeg(bytesAt) : undefined);
  return size === undefined || size.includes(0) ? undefined : size;
}

/** Returns bytes of the data, zeros beyond its end. */
type BytesAt = (offset: number, length: number) => Buffer;

/** Behind the metadata of a photograph. */
const headerCharactersMax = 1_048_576;

/** Four characters of base64 are three bytes, so a part can be decoded alone, but not in lines. */
function readerOf(data: string): BytesAt {
  const begin = data.slice(0, headerCharactersMax);
  const text = begin.includes('\n') ? begin.replaceAll(/\s/g, '') : begin;
  return (offset, length) => {
    const skipped = offset % 3;
    const first = ((offset - skipped) / 3) * 4;
    const bytes = Buffer.alloc(skipped + length);
    bytes.write(text.slice(first, first + 4 * Math.ceil(bytes.length / 3)), 'base64');
    return bytes.subarray(skipped);
  };
}

function sizeInHead(head: Buffer): ImageSize | undefined {
  const text = head.toString('latin1');
  if (text.startsWith('\x89PNG\r\n\x1a\n') && text.startsWith('IHDR', 12)) {
    return [head.readUInt32BE(16), head.readUInt32BE(20)];
  }
  if (text.startsWith('GIF87a') || text.startsWith('GIF89a')) return [head.readUInt16LE(6), head.readUInt16LE(8)];
  if (!text.startsWith('RIFF') || !text.startsWith('WEBP', 8)) return undefined;
  switch (text.slice(12, 16)) {
    case 'VP8 ':
      return [head.readUInt16LE(26) & 0x3fff, head.readUInt16LE(28) & 0x3fff];
    case 'VP8L':
      return [(head.readUInt32LE(21) & 0x3fff) + 1, ((head.readUInt32LE(21) >>> 14) & 0x3fff) + 1];
    case 'VP8X':
      return [head.readUIntLE(24, 3) + 1, head.readUIntLE(27, 3) + 1];
    default:
      return undefined;
  }
}

const segmentsMax = 32;

/** The size is in the start of a frame, behind any number of segments with metadata (ISO/IEC 10918-1, annex B). */
function sizeOfJpeg(bytesAt: BytesAt): ImageSize | undefined {
  let offset = 2;
  for (let segment = 0; segment < segmentsMax; segment++) {
    const head = bytesAt(offset, 9);
    const [start = 0, marker = 0] = head;
    if (start !== 0xff || marker < 0xc0 || marker === 0xff) return undefined;
    const isFrame = marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return [head.readUInt16BE(7), head.readUInt16BE(5)];
    offset += 2 + head.readUInt16BE(2);
  }
  return undefined;
}
