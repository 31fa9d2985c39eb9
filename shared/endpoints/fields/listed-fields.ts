import { isObject } from '../../is-object.ts';
import { refuseMediaAddress } from '../../media-hosts.ts';
import { oncePerObject } from '../../once-per-object.ts';
import { shortened } from '../../shortened.ts';
import { shownName, type ValidationIssue } from '../../validation-issues.ts';
import { issuesMax } from './checked-lists.ts';
import { type ClientGrammar, clientGrammars, grammarsOfTool, withoutPatterns } from './client-grammars.ts';
import { allowedExtraFields, countedName } from './extra-fields.ts';
import { foldedName } from './folded-name.ts';
import { mediaValues } from './media-values.ts';
import { countedFields, isAbsent } from './refused-fields.ts';

/**
 * Checks which fields, tools and addresses of a request may reach the backends of its model, by the plan file
 * (contract.md#d1-accepted-requests, decisions.md#only-listed-fields-reach-a-backend).
 */
export interface ListedFields {
  /**
   * Returns the issues of a request for this model, each with the setting that would allow the value; `refused` is its name for metrics.
   * Stops after eleven.
   */
  issuesIn(request: object, model: string, format: FieldFormat): ValidationIssue[];
  /** Returns fields of a request without what is a hint only and may not reach the backends; they replace the client's. */
  withoutHints(request: object, model: string): Readonly<Record<string, unknown>>;
  /** Returns whether the model's `extra_fields` lists this name. */
  isListed(name: string, model: string): boolean;
}

/** The fields of one endpoint, by its published description. */
export type FieldFormat = {
  published: ReadonlySet<string>;
  /** Fields with messages or parts, in which there may be media. */
  media: readonly string[];
  /** Fields with lists of objects that may have tools of their own. */
  holdTools: readonly string[];
  /** The path of the output format. */
  outputFormat: readonly string[];
};

/** The settings of the plan file about fields. */
export type FieldSettings = {
  models: Readonly<
    Record<string, { extraFields?: readonly string[] | undefined; extraTools?: readonly string[] | undefined }>
  >;
  mediaHosts: readonly string[];
};

type Json = Readonly<Record<string, unknown>>;
type Rules = { name: string; fields: ReadonlySet<string>; tools: ReadonlySet<unknown>; mediaHosts: readonly string[] };

/** Longer names are truncated in errors. */
const nameLengthMax = 64;

/** The lists of a plan file. */
export const listedFieldsOf = oncePerObject(createListedFields);

export function createListedFields({ models, mediaHosts }: FieldSettings): ListedFields {
  const rulesOf = (name: string, { extraFields, extraTools = [] }: FieldSettings['models'][string]): Rules => {
    const tools = new Set<unknown>([...publishedTools, ...extraTools]);
    return { name, fields: allowedExtraFields(extraFields), tools, mediaHosts };
  };
  const rules = new Map(Object.entries(models).map(([name, model]) => [name, rulesOf(name, model)]));

  return {
    issuesIn(request, model, format) {
      const known = rules.get(model);
      // A model that does not exist is reported separately, and has no lists.
      return known === undefined ? [] : firstOf(faultsOf({ ...request }, known, format));
    },
    withoutHints(request, model) {
      if (rules.get(model)?.fields.has('guided_regex')) return {};
      const { tools, functions }: Json = { ...request };
      const cleaned = Object.entries({ tools, functions }).map(([field, value]) => [field, withoutPatterns(value)]);
      return Object.fromEntries(cleaned.filter(([, value]) => value !== undefined));
    },
    isListed: (name, model) => rules.get(model)?.fields.has(name) === true,
  };
}

function firstOf(issues: Iterable<ValidationIssue>): ValidationIssue[] {
  const first: ValidationIssue[] = [];
  for (const issue of issues) if (first.push(issue) >= issuesMax) break;
  return first;
}

function* faultsOf(request: Json, rules: Rules, format: FieldFormat): Generator<ValidationIssue> {
  for (const field in request) {
    if (format.published.has(field) || rules.fields.has(field) || isAbsent(field, request[field])) continue;
    const listed = shortened(field, nameLengthMax);
    yield unlisted({ path: shownName(listed), listed, counted: countedName(field) }, rules);
  }
  yield* formatFaults(request, format.outputFormat, rules);
  yield* innerFaults(request, rules);
  yield* grammarFaults(clientGrammars(request, format), rules);
  yield* toolFaults(request.tools, 'tools', rules);
  for (const field of format.holdTools) yield* heldToolFaults(field, request[field], rules);
  yield* mediaFaults(request, format.media, rules);
}

/** Far more than any model reads; checking one takes a few microseconds. */
const mediaMax = 2_000;

function* mediaFaults(request: Json, fields: readonly string[], rules: Rules): Generator<ValidationIssue> {
  let values = 0;
  for (const value of mediaValues(request, fields)) {
    const { path, field, kind } = value;
    if (++values > mediaMax) {
      yield { path, message: `expected at most ${mediaMax} images, sounds and files`, refused: field };
      return;
    }
    if (kind === 'cacheName') {
      const listed = `messages.${field}`;
      if (!rules.fields.has(listed)) yield unlisted({ path, listed, counted: field }, rules);
    } else if (kind === 'tool') {
      yield* toolFault(value.tool, path, rules);
      yield* grammarFaults(grammarsOfTool(value.tool, { path, field, isDemanded: true }), rules);
    } else if (kind === 'tooDeep') {
      yield { path, message: 'is nested too deeply', refused: field };
    } else if (kind === 'unknownPart') {
      const listed = `content.${shortened(value.type, nameLengthMax)}`;
      const counted = countedFields.has(value.type) ? value.type : 'content';
      if (!rules.fields.has(listed)) yield unlisted({ path, listed, counted }, rules);
    } else if (kind === 'address') {
      const message = refuseMediaAddress(value.address, rules.mediaHosts);
      if (message !== undefined) yield { path, message, refused: field };
    }
  }
}

type Unlisted = { path: string; counted: string; listed?: string };

/** `listed` is the name that the list must contain, if it differs from that of the field. */
function unlisted({ path, counted, listed = path }: Unlisted, { name }: Rules): ValidationIssue {
  const message = `is not accepted (the operator can allow it: "${listed}" in extra_fields of the model "${name}")`;
  return { path, message, refused: counted };
}

/** OpenAI's and Anthropic's types of output formats. Other types are regular expressions and grammars of model servers. */
const publishedFormats = new Set<unknown>(['text', 'json_object', 'json_schema']);
/** Members of vLLM's `structured_outputs` whose cost is bounded; the others are regular expressions and grammars. */
const structuredOutputs = new Set([
  ...['json', 'json_object', 'choice', 'disable_fallback'],
  ...['disable_any_whitespace', 'disable_additional_properties'],
]);
/**
 * Members of `chat_template_kwargs` that are not template variables: model servers pass them to Transformers' `apply_chat_template`, where
 * they select another template or stop the server (CVE-2025-61620, CVE-2025-62426).
 */
const templateArguments = new Set([
  ...['chat_template', 'conversation', 'conversations', 'messages', 'tokenize', 'tokenizer', 'tokenizer_kwargs'],
  ...['processor_kwargs', 'padding', 'truncation', 'max_length', 'return_tensors', 'return_dict'],
  ...['return_assistant_tokens_mask', 'load_audio_from_video', 'num_frames', 'video_load_backend'],
]);

function* formatFaults(request: Json, steps: readonly string[], rules: Rules): Generator<ValidationIssue> {
  const path = steps.join('.');
  const refused = steps[0] ?? '';
  const format = steps.reduce<unknown>((value, step) => (isObject(value) ? value[step] : undefined), request);
  if (!isObject(format)) return;
  yield* misspeltTypes(format, { path, refused });
  if (typeof format.type !== 'string' || publishedFormats.has(format.type)) return;
  const listed = `${path}.${shortened(format.type, nameLengthMax)}`;
  if (!rules.fields.has(listed)) yield unlisted({ path: `${path}.type`, listed, counted: refused }, rules);
}

/** Checks members of listed fields that have the same effect as an unlisted field. */
function* innerFaults(request: Json, rules: Rules): Generator<ValidationIssue> {
  const { structured_outputs: structured, chat_template_kwargs: template, prompt } = request;
  if (isObject(structured)) {
    const isFree = (name: string) => structuredOutputs.has(name);
    yield* memberFaults({ field: 'structured_outputs', members: structured, isFree }, rules);
  }
  if (isObject(template)) {
    const isFree = (name: string) => !templateArguments.has(foldedName(name));
    yield* memberFaults({ field: 'chat_template_kwargs', members: template, isFree }, rules);
  }
  if (isObject(prompt)) {
    const isFree = (name: string) => foldedName(name) !== 'id';
    yield* memberFaults({ field: 'prompt', members: prompt, isFree }, rules);
  }
}

type Members = { field: string; members: Json; isFree: (name: string) => boolean };

function* memberFaults({ field, members, isFree }: Members, rules: Rules): Generator<ValidationIssue> {
  for (const name in members) {
    const path = `${field}.${shortened(name, nameLengthMax)}`;
    if (isFree(name) || rules.fields.has(path)) continue;
    yield unlisted({ path, counted: field }, rules);
  }
}

/** Checks what the model server would compile: its cost is unbounded. */
function* grammarFaults(grammars: Iterable<ClientGrammar>, rules: Rules): Generator<ValidationIssue> {
  for (const { path, field, listed } of grammars) {
    if (!rules.fields.has(listed)) yield unlisted({ path, listed, counted: field }, rules);
  }
}

/** A tool of another type may name a server that the model server would call. */
const publishedTools = ['function', 'custom'];

function* heldToolFaults(field: string, items: unknown, rules: Rules): Generator<ValidationIssue> {
  if (!Array.isArray(items)) return;
  for (let index = 0; index < items.length; index++) {
    const item: unknown = items[index];
    if (!isObject(item)) continue;
    for (const name in item) {
      if (foldedName(name) === 'tools') yield* toolFaults(item[name], `${field}[${index}].${name}`, rules);
    }
  }
}

function* toolFaults(tools: unknown, path: string, rules: Rules): Generator<ValidationIssue> {
  if (!Array.isArray(tools)) return;
  for (let index = 0; index < tools.length; index++) {
    const tool: unknown = tools[index];
    if (isObject(tool)) yield* toolFault(tool, `${path}[${index}]`, rules);
  }
}

function* toolFault(tool: Json, path: string, { name, tools: allowed }: Rules): Generator<ValidationIssue> {
  yield* misspeltTypes(tool, { path, refused: 'tools' });
  if (tool.type == null || allowed.has(tool.type)) return;
  const message = `expected ${[...allowed].join(' or ')} (the operator can allow others in extra_tools of the model "${name}")`;
  yield { path: `${path}.type`, message, refused: 'tools' };
}

/** A server written in Go uses the last of `type` and `Type`. */
function* misspeltTypes(
  object: Json,
  { path, refused }: { path: string; refused: string },
): Generator<ValidationIssue> {
  for (const name in object) {
    if (name !== 'type' && foldedName(name) === 'type') {
      yield { path: `${path}.${name}`, message: 'must be spelled type', refused };
    }
  }
}
