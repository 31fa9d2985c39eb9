import { isIP } from 'node:net';
import { isObject, type Json } from '../../json/json-values.ts';
import { foldedName } from './field-names.ts';
import { refusedPartTypes } from './refused-fields.ts';

/**
 * A value of a request in a place where model servers look for media, or for a tool. `field` is the field of the part that holds it, one of
 * a few names. `address`: the server may fetch it. `data`: base64, an id, or another value that no server fetches. `cacheName`: the name of
 * media in a cache that accounts share. `unknownPart`: a part of a type that is not published. `tooDeep`: the value was not searched.
 * `tool`: the definition of a tool within a part (Anthropic's `tool_addition`).
 */
type MediaValue = { path: string; field: string } & (
  | { kind: 'address'; address: string }
  | { kind: 'unknownPart'; type: string }
  | { kind: 'tool'; tool: Json }
  | { kind: 'data' | 'cacheName' | 'tooDeep' }
);

/** Fields of a content part, or of a message, in which model servers look for media, regardless of the part's `type`. */
const mediaFields = new Set([
  ...['image_url', 'image', 'images', 'input_image', 'video_url', 'video', 'videos', 'input_video'],
  ...['audio_url', 'audio', 'audios', 'input_audio', 'file_url', 'file', 'files', 'input_file'],
]);
/** Members of such a field, and fields of a part that is not text, that are or contain an address. */
const addressMembers = new Set([...mediaFields, 'url', 'uri', 'href', 'path', 'source']);
/** Members that hold the data itself or an id; for some servers also an address. */
const dataMembers = new Set(['data', 'file_data', 'file_id', 'id']);
/** Members with which a client chooses the cache name of media, in vLLM and in SGLang. */
const cacheMembers = new Set(['uuid', 'content_hash']);

/** Types of content parts that OpenAI's or Anthropic's description has, or that model servers document for images, audio and video. */
const knownParts = new Set([
  ...[
    'text',
    'input_text',
    'output_text',
    'summary_text',
    'reasoning_text',
    'refusal',
    'thinking',
    'redacted_thinking',
  ],
  ...['image_url', 'input_image', 'image', 'video_url', 'input_video', 'video', 'audio_url', 'input_audio', 'audio'],
  ...[
    'file',
    'file_url',
    'input_file',
    'document',
    'computer_screenshot',
    'encrypted_content',
    'compaction',
    'tool_reference',
  ],
  ...['tool_use', 'server_tool_use', 'mcp_tool_use', 'mcp_tool_listing', 'tool_addition', 'tool_removal'],
  ...['browser_state', 'fallback'],
]);
/** Of what tools return there are many, with results within results: `web_search_tool_result`, `bash_code_execution_output`. */
const resultPart = /^([a-z_]{1,60}?)_(?:result|output|result_error)$/;
const toolsWithResults = [
  ...['tool_', 'web_', 'search_', 'advisor_', 'text_editor_', 'code_execution_', 'bash_code_execution_'],
  'encrypted_code_execution_',
];

function isKnownPart(type: string): boolean {
  if (knownParts.has(type)) return true;
  const [, tool = ''] = resultPart.exec(type) ?? [];
  return `${tool}_`.includes('_tool_') || toolsWithResults.some((name) => `${tool}_`.startsWith(name));
}

/** Counted from the request: a part within six others, and the address in it. */
const stepsMax = 16;

/** A linked list, because a path is written for only a few of the visited values. */
type JsonPosition = { outer?: JsonPosition; step: string | number; depth: number };

/**
 * Yields all such values in these fields of a request, each an object or a list of objects, in order. An array is read only as far as the
 * caller takes values, so a caller that takes a bounded number visits a bounded number of items.
 */
export function* mediaValues(request: Json, fields: readonly string[]): Generator<MediaValue> {
  for (const field of fields) {
    const value = request[field];
    const place = { step: field, depth: 0 };
    // Anthropic's `system` is a list of parts, every other list is one of messages.
    const ofItem = field === 'system' ? ofPart : ofMessage;
    if (isObject(value)) yield* ofItem(value, place);
    if (!Array.isArray(value)) continue;
    for (let index = 0; index < value.length; index++) {
      if (isObject(value[index])) yield* ofItem(value[index], within(place, index));
    }
  }
}

/** An item of a list of messages may have a type of its own, of which there are many. */
function* ofMessage(message: Json, place: JsonPosition): Generator<MediaValue> {
  yield* ofType(message, place, (type) => !refusedPartTypes.has(type));
  yield* ofFields(message, place, text);
}

function* ofType(part: Json, place: JsonPosition, isKnown: (type: string) => boolean): Generator<MediaValue> {
  for (const name in part) {
    const type = part[name];
    if (foldedName(name) !== 'type' || typeof type !== 'string' || isKnown(type)) continue;
    yield { path: pathOf(within(place, name)), field: 'content', kind: 'unknownPart', type };
  }
}

function* ofPart(part: Json, place: JsonPosition): Generator<MediaValue> {
  yield* ofType(part, place, isKnownPart);
  yield* ofFields(part, place, isText(part) ? text : { isMedia: true, origin: originOf(part) });
}

type Kind = { isMedia: boolean; origin?: string | undefined };

const text: Kind = { isMedia: false };

/** Searches the fields of a message or of a part; `isMedia` for a part that is not text. `origin`: a field that says where it is from. */
function* ofFields(fields: Json, place: JsonPosition, { isMedia, origin }: Kind): Generator<MediaValue> {
  for (const name in fields) {
    const value = fields[name];
    const field = foldedName(name);
    if (name === origin && typeof value === 'string') continue;
    if (mediaFields.has(field) || (isMedia && addressMembers.has(field))) {
      yield* ofMedia(value, { place: within(place, name), field, isData: false });
    } else if (isMedia && cacheMembers.has(field)) {
      yield* ofCacheName(value, within(place, name));
    } else if (contentFields.has(field) && isContainer(value)) {
      yield* ofContent(value, within(place, name));
    } else if (field === 'tool' && isObject(value)) {
      yield* ofTool(value, within(place, name));
    }
  }
}

/** Fields with parts: of a message, of the output of a tool, and of a compaction. */
const contentFields = new Set(['content', 'output', 'tool_changes']);

/** A tool by its name, or by its definition. */
function* ofTool(tool: Json, place: JsonPosition): Generator<MediaValue> {
  for (const name in tool) {
    const definition = tool[name];
    if (foldedName(name) !== 'definition' || !isObject(definition)) continue;
    yield { path: pathOf(within(place, name)), field: 'tools', kind: 'tool', tool: definition };
  }
}

/** Searches a part, or a list of parts. */
function* ofContent(content: object, place: JsonPosition): Generator<MediaValue> {
  if (place.depth >= stepsMax) {
    yield { path: pathOf(place), field: 'content', kind: 'tooDeep' };
  } else if (isObject(content)) {
    yield* ofPart(content, place);
  } else if (Array.isArray(content)) {
    for (let index = 0; index < content.length; index++) {
      if (isContainer(content[index])) yield* ofContent(content[index], within(place, index));
    }
  }
}

function isText(part: Json): boolean {
  return hasType(part, 'text');
}

/** By the type of a result: its address that says where a text is from, which no server fetches. */
const origins: ReadonlyMap<unknown, string> = new Map([
  ['search_result', 'source'],
  ['web_search_result', 'url'],
  ['web_fetch_result', 'url'],
]);

function originOf(part: Json): string | undefined {
  const origin = origins.get(part.type);
  return origin !== undefined && hasType(part, String(part.type)) ? origin : undefined;
}

/** A server may use the last of `type` and `Type`. */
function hasType(part: Json, type: string): boolean {
  for (const name in part) if (foldedName(name) === 'type' && part[name] !== type) return false;
  return part.type === type;
}

type Medium = { place: JsonPosition; field: string; isData: boolean };

function* ofMedia(value: unknown, { place, field, isData }: Medium): Generator<MediaValue> {
  if (!isContainer(value)) {
    // Base64 and ids contain no colon, and every address contains one.
    const isAddress = typeof value === 'string' && (!isData || value.includes(':'));
    yield { path: pathOf(place), field, ...(isAddress ? { kind: 'address', address: value } : { kind: 'data' }) };
  } else if (place.depth >= stepsMax) {
    yield { path: pathOf(place), field, kind: 'tooDeep' };
  } else if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      yield* ofMedia(value[index], { place: within(place, index), field, isData });
    }
  } else if (isObject(value)) {
    yield* ofMembers(value, place, field);
  }
}

function* ofMembers(members: Json, place: JsonPosition, field: string): Generator<MediaValue> {
  // The text of a document may contain anything.
  const isDocument = field === 'source' && isText(members);
  for (const name in members) {
    const member = foldedName(name);
    if (isDocument && member === 'data') continue;
    if (member === 'content' && isContainer(members[name])) yield* ofContent(members[name], within(place, name));
    const isData = dataMembers.has(member);
    if (isData || addressMembers.has(member)) {
      yield* ofMedia(members[name], { place: within(place, name), field, isData });
    } else if (cacheMembers.has(member)) {
      yield* ofCacheName(members[name], within(place, name));
    }
  }
}

function* ofCacheName(value: unknown, place: JsonPosition): Generator<MediaValue> {
  if (value !== null) yield { path: pathOf(place), field: foldedName(String(place.step)), kind: 'cacheName' };
}

function within(outer: JsonPosition, step: string | number): JsonPosition {
  return { outer, step, depth: outer.depth + 1 };
}

function pathOf({ outer, step }: JsonPosition): string {
  if (outer === undefined) return String(step);
  return pathOf(outer) + (typeof step === 'number' ? `[${step}]` : `.${step}`);
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
const entry = new RegExp(`^(?:\\*|\\*\\.${label}(?:\\.${label})*|${label}(?:\\.${label})*(?::\\d{1,5})?)$`);

/**
 * Returns whether this is a valid entry of `media_hosts`: `*`, `*.example.com`, or a name, with a port unless it is 443; never an IP
 * address.
 */
export function isMediaHost(text: string): boolean {
  if (!entry.test(text)) return false;
  if (text === '*') return true;
  const name = text.replace(/^\*\./, '');
  const url = URL.parse(`https://${name}`);
  return url?.host === name && isIP(url.hostname) === 0;
}

/** Names that public name servers do not resolve (RFC 6761, 6762, 8375, ICANN's `internal`), and common names of private networks. */
const privateName =
  /(?:^|\.)(?:localhost|local|internal|arpa|lan|home|corp|intranet|private|localdomain|svc|test|invalid|alt|onion)$/;

const addressLengthMax = 8_192;
const visible = /^[\x21-\x7e]*$/;
const beginning = /^https:\/\/([^/?#]*)([?#]?)/i;

/**
 * Returns why a model server may not get this address of an image, a sound or a file, or undefined if it may. Allowed are `data:` URLs, and
 * `https:` URLs with a host that `hosts` lists (contract.md#d1-accepted-requests). The address is checked as it is written and never
 * resolved, so a listed name may still resolve to any address. Addresses that URL parsers read differently are refused: those with a
 * backslash, a user name, white space, no path, or a host that is not in its normal form.
 */
export function refuseMediaAddress(address: string, hosts: readonly string[]): string | undefined {
  if (/^data:/i.test(address)) return undefined;
  const [, named, after] = beginning.exec(address) ?? [];
  const authority = named?.toLowerCase();
  if (authority === undefined) return 'expected a data: or https: URL';
  if (address.length > addressLengthMax || !visible.test(address) || address.includes('\\') || after !== '') {
    return `expected a URL with a path, of at most ${addressLengthMax} visible ASCII characters, without backslashes`;
  }
  if (authority.includes('@')) return 'expected a URL without user name and password';
  const url = URL.parse(address);
  if (url === null || isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0)
    return 'expected a host name, not an IP address';
  const isListed = authority.replace(/:443$/, '') === url.host && hosts.some((host) => isCovered(url, host));
  return isListed ? undefined : 'the host is not allowed (the operator can allow it in media_hosts)';
}

function isCovered({ host, hostname, port }: URL, listed: string): boolean {
  if (listed === '*')
    return port === '' && hostname.includes('.') && !hostname.endsWith('.') && !privateName.test(hostname);
  return listed.startsWith('*.') ? host.endsWith(listed.slice(1)) : host === listed;
}
