import { publishedFields } from '../chat-completion.ts';
import { type Fault, shownName } from '../faults.ts';
import type { Model, PlanFile } from '../plan-file.ts';
import { allowedExtraFields, countedName } from './extra-fields.ts';
import { mediaAddresses } from './media-addresses.ts';
import { refuseMediaAddress } from './media-hosts.ts';

/** Which fields, tools and addresses of a request may reach the backends of its model, by the plan file. */
export interface ListedFields {
  /** What may not, each with the setting that would allow it; `refused` is its name for metrics. Eleven at most are looked for. */
  faultsIn(request: object): Fault[];
}

type Json = Readonly<Record<string, unknown>>;
type Rules = { name: string; fields: ReadonlySet<string>; tools: ReadonlySet<string>; mediaHosts: readonly string[] };

/** Only ten faults are named. */
const faultsMax = 11;
/** A longer name is told by its beginning. */
const nameLengthMax = 64;

export function createListedFields(planFile: Pick<PlanFile, 'models' | 'mediaHosts'>): ListedFields {
  const { models, mediaHosts } = planFile;
  const rulesOf = (name: string, { extraFields, extraTools = [] }: Model): Rules => {
    const tools = new Set([...publishedTools, ...extraTools]);
    return { name, fields: allowedExtraFields(extraFields), tools, mediaHosts };
  };
  const rules = new Map(Object.entries(models).map(([name, model]) => [name, rulesOf(name, model)]));

  return {
    faultsIn(request) {
      const json: Json = { ...request };
      const known = typeof json.model === 'string' ? rules.get(json.model) : undefined;
      // A model that does not exist is a fault of its own, and has no lists.
      return known === undefined ? [] : firstOf(faultsOf(json, known));
    },
  };
}

function firstOf(faults: Iterable<Fault>): Fault[] {
  const first: Fault[] = [];
  for (const fault of faults) if (first.push(fault) >= faultsMax) break;
  return first;
}

function* faultsOf(request: Json, rules: Rules): Generator<Fault> {
  for (const field in request) {
    if (publishedFields.has(field) || rules.fields.has(field)) continue;
    const listed = shortened(field);
    yield unlisted({ path: shownName(listed), listed, counted: countedName(field) }, rules);
  }
  yield* innerFaults(request, rules);
  yield* toolFaults(request.tools, 'tools', rules);
  if (Array.isArray(request.messages)) {
    for (const [index, message] of request.messages.entries()) {
      if (isObject(message) && message.tools !== undefined)
        yield* toolFaults(message.tools, `messages[${index}].tools`, rules);
    }
  }
  yield* addressFaults(request, rules);
}

/** Far more than any model looks at; reading one takes a few microseconds. */
const addressesMax = 2_000;

function* addressFaults(request: Json, { mediaHosts }: Rules): Generator<Fault> {
  let addresses = 0;
  for (const { path, field, address } of mediaAddresses(request)) {
    if (++addresses > addressesMax) {
      yield { path, message: `expected at most ${addressesMax} images, sounds and files`, refused: field };
      return;
    }
    const message = refuseMediaAddress(address, mediaHosts);
    if (message !== undefined) yield { path, message, refused: field };
  }
}

type Unlisted = { path: string; counted: string; listed?: string };

/** `listed` is the name that would have to be in the list, where it is another than that of the field. */
function unlisted({ path, counted, listed = path }: Unlisted, { name }: Rules): Fault {
  const message = `is not accepted (the operator can allow it: "${listed}" in extra_fields of the model "${name}")`;
  return { path, message, refused: counted };
}

/** OpenAI's types of `response_format`. Others are regular expressions and grammars of model servers. */
const publishedFormats = new Set<unknown>(['text', 'json_object', 'json_schema']);
/** Members of vLLM's `structured_outputs` whose cost is bounded; the others are regular expressions and grammars. */
const structuredOutputs = new Set([
  ...['json', 'json_object', 'choice', 'disable_fallback'],
  ...['disable_any_whitespace', 'disable_additional_properties'],
]);
/**
 * Members of `chat_template_kwargs` that are no variables of a template: model servers pass them on to Transformers'
 * `apply_chat_template`, which takes another template by them, or stops the server (CVE-2025-61620, CVE-2025-62426).
 */
const templateArguments = new Set([
  ...['chat_template', 'conversation', 'conversations', 'messages', 'tokenize', 'tokenizer', 'tokenizer_kwargs'],
  ...['processor_kwargs', 'padding', 'truncation', 'max_length', 'return_tensors', 'return_dict'],
  ...['return_assistant_tokens_mask', 'load_audio_from_video', 'num_frames', 'video_load_backend'],
]);

/** What would bring in by a field that is listed what is not. */
function* innerFaults(request: Json, rules: Rules): Generator<Fault> {
  const { response_format: format, structured_outputs: structured, chat_template_kwargs: template } = request;
  if (isObject(format) && typeof format.type === 'string' && !publishedFormats.has(format.type)) {
    const listed = `response_format.${shortened(format.type)}`;
    const path = 'response_format.type';
    if (!rules.fields.has(listed)) yield unlisted({ path, listed, counted: 'response_format' }, rules);
  }
  if (isObject(structured)) {
    const isFree = (name: string) => structuredOutputs.has(name);
    yield* memberFaults({ field: 'structured_outputs', members: structured, isFree }, rules);
  }
  if (isObject(template)) {
    const isFree = (name: string) => !templateArguments.has(name);
    yield* memberFaults({ field: 'chat_template_kwargs', members: template, isFree }, rules);
  }
}

type Members = { field: string; members: Json; isFree: (name: string) => boolean };

function* memberFaults({ field, members, isFree }: Members, rules: Rules): Generator<Fault> {
  for (const name in members) {
    const path = `${field}.${shortened(name)}`;
    if (isFree(name) || rules.fields.has(path)) continue;
    yield unlisted({ path, counted: field }, rules);
  }
}

/** A tool of another type may name a server that the model server would call. */
const publishedTools = ['function', 'custom'];

function* toolFaults(tools: unknown, path: string, { name, tools: allowed }: Rules): Generator<Fault> {
  if (!Array.isArray(tools)) return;
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool) || !('type' in tool) || allowed.has(String(tool.type))) continue;
    const message = `expected ${[...allowed].join(' or ')} (the operator can allow others in extra_tools of the model "${name}")`;
    yield { path: `${path}[${index}].type`, message, refused: 'tools' };
  }
}

function shortened(name: string): string {
  return name.length > nameLengthMax ? `${name.slice(0, nameLengthMax)}…` : name;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
