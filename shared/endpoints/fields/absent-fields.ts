import { isObject, type Json } from '../../json/json-values.ts';

/** Fields with lists of objects: messages or items, and tools. */
const lists = ['messages', 'input', 'system', 'tools', 'functions'] as const;
/** Members of these, and of what is in them, that are lists of objects with fields. If they are anything else, they are data. */
const nestedLists = new Set([
  ...['content', 'output', 'summary', 'tool_calls', 'tools', 'annotations', 'citations', 'results'],
  ...['pending_safety_checks', 'acknowledged_safety_checks'],
]);
/** Those that are objects with fields. All other members are data. */
const nestedObjects = new Set([
  ...['function', 'custom', 'format', 'grammar', 'cache_control', 'source', 'json_schema', 'allowed_tools'],
  ...['image_url', 'video_url', 'audio_url', 'input_audio', 'file', 'audio', 'function_call', 'citations'],
  ...['action', 'operation', 'caller'],
]);
/** A part of the result of a tool, and the source of its media. */
const levelsMax = 4;
/** Fields that are objects with fields. In others null is data: in schemas, maps and the variables of templates. */
const objects = [
  ...['stream_options', 'response_format', 'text', 'reasoning', 'thinking', 'output_config', 'output_format', 'prompt'],
  ...['tool_choice', 'function_call', 'structured_outputs', 'audio', 'prediction', 'metadata', 'cache_control'],
  ...['context_management', 'prompt_cache_options', 'moderation', 'diagnostics'],
] as const;

/**
 * Returns a request without what is null in an optional field, because null means absent (contract.md#d14-null-and-half-characters): its
 * own fields, the members of its objects, messages, items and tools, and those of their parts. The `content` of a message stays, because
 * the templates of models read it. Returns the request itself if nothing is null.
 */
export function withoutNulls(request: Json): Json {
  const changed: Record<string, unknown> = {};
  for (const field of lists) {
    changed[field] = presentIn(request[field], levelsMax, field === 'messages' ? 'content' : undefined);
  }
  for (const field of objects) {
    const value = request[field];
    changed[field] = isObject(value) ? presentMembers(value, levelsMax) : value;
  }
  const differing = Object.entries(changed).filter(([field, value]) => value !== request[field]);
  return withoutNullMembers(differing.length === 0 ? request : { ...request, ...Object.fromEntries(differing) });
}

/** The `kept` member stays also if it is null. */
function presentIn(value: unknown, levels: number, kept?: string): unknown {
  if (Array.isArray(value)) return changedObjects(value, (item) => presentMembers(item, levels, kept));
  return isObject(value) ? presentMembers(value, levels, kept) : value;
}

function presentMembers(item: Json, levels: number, kept?: string): Json {
  let changed = item;
  for (const name in item) {
    const value = item[name];
    if (levels === 0 || !(Array.isArray(value) ? nestedLists : nestedObjects).has(name)) continue;
    const present = presentIn(value, levels - 1);
    if (present !== item[name]) changed = { ...changed, [name]: present };
  }
  return withoutNullMembers(changed, kept);
}

function withoutNullMembers<T>(value: T, kept?: string): T {
  if (!isObject(value)) return value;
  for (const name in value) {
    if (value[name] !== null || name === kept) continue;
    const left = Object.entries(value).filter(([each, member]) => member !== null || each === kept);
    return Object.fromEntries(left) as T; // the type of JSON: any member may be missing
  }
  return value;
}

/**
 * Returns a list of objects with what `change` makes of each, without those of which it makes nothing: the list itself if all stay. It is
 * read up to the first item that is no object, because such lists are refused, and may be long.
 */
export function changedObjects(list: unknown, change: (item: Json) => Json | undefined): unknown {
  if (!Array.isArray(list)) return list;
  const items: readonly unknown[] = list;
  const changed = new Map<number, Json | undefined>();
  for (let index = 0; index < items.length; index++) {
    const item = items[index];
    if (!isObject(item)) break;
    const made = change(item);
    if (made !== item) changed.set(index, made);
  }
  if (changed.size === 0) return list;
  return items
    .map((item, index) => (changed.has(index) ? changed.get(index) : item))
    .filter((item) => item !== undefined);
}
