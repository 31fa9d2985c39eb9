/** An address that a model server may fetch: `field` is the part's field that holds it, `path` where it stands in the request. */
export type MediaAddress = { path: string; field: string; address: string };

/** Fields of a content part, or of a message, in which model servers look for media, whatever the part's `type` says. */
const mediaFields = new Set([
  ...['image_url', 'image', 'images', 'input_image', 'video_url', 'video', 'videos', 'input_video'],
  ...['audio_url', 'audio', 'audios', 'input_audio', 'file_url', 'file', 'files', 'input_file'],
]);
/** Members of such a field that are an address. */
const addressMembers = new Set([...mediaFields, 'url', 'uri', 'href']);
/** Members that hold the data itself, or an id, and an address for some servers. */
const dataMembers = new Set(['data', 'file_data', 'file_id', 'id']);

/** A message holds a list of parts, a part perhaps another one. */
const depthMax = 6;

/** Every address of an image, a video, a sound or a file in a request's messages and its prediction, data in base64 left out. */
export function* mediaAddresses(request: Readonly<Record<string, unknown>>): Generator<MediaAddress> {
  const { messages, prediction } = request;
  if (Array.isArray(messages)) yield* ofParts(messages, 'messages', depthMax);
  if (isObject(prediction)) yield* ofPart(prediction, () => 'prediction', depthMax);
}

function* ofParts(parts: readonly unknown[], path: string, depth: number): Generator<MediaAddress> {
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index];
    // A body can have a hundred thousand parts, nearly all of which are texts.
    if (isObject(part) && mayHold(part)) yield* ofPart(part, () => `${path}[${index}]`, depth);
  }
}

function mayHold(part: Readonly<Record<string, unknown>>): boolean {
  for (const name in part) if (typeof part[name] === 'object' || mediaFields.has(folded(name))) return true;
  return false;
}

function* ofPart(
  part: Readonly<Record<string, unknown>>,
  pathOf: () => string,
  depth: number,
): Generator<MediaAddress> {
  for (const name in part) {
    const value = part[name];
    const field = folded(name);
    if (mediaFields.has(field)) yield* ofMedia(value, { path: `${pathOf()}.${name}`, field, isData: false, depth });
    else if (field === 'content' && Array.isArray(value) && depth > 0) {
      yield* ofParts(value, `${pathOf()}.${name}`, depth - 1);
    }
  }
}

type Place = { path: string; field: string; isData: boolean; depth: number };

function* ofMedia(value: unknown, place: Place): Generator<MediaAddress> {
  const { path, field, isData, depth } = place;
  if (typeof value === 'string') {
    // Base64 and ids have no colon, and every address has one.
    if (!isData || value.includes(':')) yield { path, field, address: value };
  } else if (Array.isArray(value) && depth > 0) {
    for (const [index, item] of value.entries()) {
      yield* ofMedia(item, { ...place, path: `${path}[${index}]`, depth: depth - 1 });
    }
  } else if (isObject(value) && depth > 0) {
    for (const name in value) {
      const member = folded(name);
      const inner = { path: `${path}.${name}`, field, isData: dataMembers.has(member), depth: depth - 1 };
      if (inner.isData || addressMembers.has(member)) yield* ofMedia(value[name], inner);
    }
  }
}

const plainName = /^[a-z0-9_]*$/;
const nameLengthMax = 32;

/** Servers written in Go take a field in whatever case it comes; a longer name is none of ours in any. */
function folded(name: string): string {
  return name.length > nameLengthMax || plainName.test(name) ? name : name.toUpperCase().toLowerCase();
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
