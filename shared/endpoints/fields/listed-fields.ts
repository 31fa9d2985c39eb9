import { oncePerObject } from '../../concurrency/single-flight.ts';
import { fieldPath, type ValidationIssue } from '../../errors.ts';
import { isObject, type Json } from '../../json/json-values.ts';
import { shownName } from '../../json/texts.ts';
import {
  type ClientGrammar,
  clientGrammars,
  grammarsOfTool,
  heldToolFaults,
  publishedTools,
  toolFault,
  toolFaults,
  withoutPatterns,
} from './client-grammars.ts';
import { issuesMax } from './common-fields.ts';
import { foldedName, misspeltTypes, nearName } from './field-names.ts';
import { type WithoutTools, withoutHostedTools } from './hosted-tools.ts';
import { mediaValues, refuseMediaAddress } from './media-values.ts';
import { isLimitField } from './output-limit.ts';
import { allowedExtraFields, countedFields, countedName } from './refused-fields.ts';

/** `dropped`: what the backend does not get, by names for the client. */
export type CleanedRequest = { request: object; dropped: readonly string[]; issues: readonly ValidationIssue[] };

/** The fields of one endpoint, by its published description. */
export type FieldFormat = {
  published: ReadonlySet<string>;
  /** Fields with messages or parts, in which there may be media. */
  media: readonly string[];
  /** Fields with lists of objects that may have tools of their own. */
  holdTools: readonly string[];
  /** The path of the output format. */
  outputFormat: readonly string[];
  /** Which tools only the provider of the API has. Without it, all other types than the published ones are refused. */
  isHosted?: (type: string) => boolean;
};

/** The settings of the plan file about fields. */
export type FieldSettings = {
  models: Readonly<
    Record<
      string,
      {
        extraFields?: readonly string[] | undefined;
        extraTools?: readonly string[] | undefined;
        unknownFields?: 'refuse' | 'drop' | undefined;
      }
    >
  >;
  mediaHosts: readonly string[];
};

type Rules = {
  name: string;
  fields: ReadonlySet<string>;
  tools: ReadonlySet<unknown>;
  mediaHosts: readonly string[];
  dropsUnknown: boolean;
};

/** Longer names are truncated in errors. */
const nameLengthMax = 64;

/** The lists of a plan file. */
export const listedFieldsOf = oncePerObject(createListedFields);

/**
 * Checks which fields, tools and addresses of a request may reach the backends of its model, by the plan file
 * (contract.md#d1-accepted-requests, decisions.md#only-listed-fields-reach-a-backend).
 */
export function createListedFields({ models, mediaHosts }: FieldSettings) {
  const rulesOf = (name: string, model: FieldSettings['models'][string]): Rules => {
    const { extraFields, extraTools = [], unknownFields } = model;
    const tools = new Set<unknown>([...publishedTools, ...extraTools]);
    return { name, fields: allowedExtraFields(extraFields), tools, mediaHosts, dropsUnknown: unknownFields === 'drop' };
  };
  const rules = new Map(Object.entries(models).map(([name, model]) => [name, rulesOf(name, model)]));

  return {
    /**
     * Returns the request without what is not served: hosted tools, and unknown fields, as the model's settings say. `issues` are of fields
     * that need what was dropped.
     */
    cleaned(request: object, model: string, format: FieldFormat): CleanedRequest {
      const known = rules.get(model);
      return known === undefined ? { request, dropped: [], issues: [] } : cleanedBy(known, { ...request }, format);
    },
    /**
     * Returns the issues of a request for this model, each with the setting that would allow the value; `refused` is its name for metrics.
     * Stops after eleven.
     */
    issuesIn(request: object, model: string, format: FieldFormat): ValidationIssue[] {
      const known = rules.get(model);
      // A model that does not exist is reported separately, and has no lists.
      return known === undefined ? [] : firstOf(faultsOf({ ...request }, known, format));
    },
    /** Returns fields of a request without what is a hint only and may not reach the backends; they replace the client's. */
    withoutHints(request: object, model: string): Readonly<Record<string, unknown>> {
      if (rules.get(model)?.fields.has('guided_regex')) return {};
      const { tools, functions }: Json = { ...request };
      const cleaned = Object.entries({ tools, functions }).map(([field, value]) => [field, withoutPatterns(value)]);
      return Object.fromEntries(cleaned.filter(([, value]) => value !== undefined));
    },
    /** Returns whether the model's `extra_fields` lists this name. */
    isListed: (name: string, model: string): boolean => rules.get(model)?.fields.has(name) === true,
  };
}

export type ListedFields = ReturnType<typeof createListedFields>;

function cleanedBy(rules: Rules, request: Json, format: FieldFormat): CleanedRequest {
  const { isHosted, holdTools, published } = format;
  const hosted = isHosted && { isHosted, allowed: rules.tools, holdTools };
  const tools: WithoutTools = hosted ? withoutHostedTools(request, hosted) : { request, dropped: [] };
  const isDropped = (field: string) => !rules.fields.has(field) && isUnknownField(field, published);
  const unknown = rules.dropsUnknown ? Object.keys(tools.request).filter(isDropped) : [];
  const dropped = [...unknown, ...tools.dropped];
  const names = new Set(unknown);
  const left = Object.entries(tools.request).filter(([field]) => !names.has(field));
  const known = unknown.length === 0 ? tools.request : Object.fromEntries(left);
  return { request: known, dropped, issues: tools.issue === undefined ? [] : [tools.issue] };
}

function firstOf(issues: Iterable<ValidationIssue>): ValidationIssue[] {
  const first: ValidationIssue[] = [];
  for (const issue of issues) if (first.push(issue) >= issuesMax) break;
  return first;
}

function* faultsOf(request: Json, rules: Rules, format: FieldFormat): Generator<ValidationIssue> {
  for (const field in request) {
    if (format.published.has(field) || rules.fields.has(field)) continue;
    const listed = shownName(field, nameLengthMax);
    const counted = countedName(field);
    // A field that is refused for a reason is no typing error.
    const meant = counted === 'other' ? nearName(field, [...format.published, ...rules.fields]) : undefined;
    yield unlisted({ path: fieldPath(listed), listed, counted, meant }, rules);
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
      yield* grammarFaults(grammarsOfTool(value.tool, { path, field, isDemanded: () => true }), rules);
    } else if (kind === 'tooDeep') {
      yield { path, message: 'is nested too deeply', refused: field };
    } else if (kind === 'unknownPart') {
      if (rules.fields.has(`content.${value.type}`)) continue;
      const counted = countedFields.has(value.type) ? value.type : 'content';
      yield unlisted({ path, listed: `content.${shownName(value.type, nameLengthMax)}`, counted }, rules);
    } else if (kind === 'address') {
      const message = refuseMediaAddress(value.address, rules.mediaHosts);
      if (message !== undefined) yield { path, message, refused: field };
    }
  }
}

type UnlistedField = { path: string; counted: string; listed?: string; meant?: string | undefined };

/** `listed` is the name that the list must contain, if it differs from that of the field. `meant`: a known field of nearly this name. */
function unlisted({ path, counted, listed = path, meant }: UnlistedField, { name }: Rules): ValidationIssue {
  const question = meant === undefined ? '' : `, did you mean \`${meant}\`?`;
  const message = `is not accepted${question} (the operator can allow it: "${listed}" in extra_fields of the model "${name}")`;
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
  if (rules.fields.has(`${path}.${format.type}`)) return;
  const listed = `${path}.${shownName(format.type, nameLengthMax)}`;
  yield unlisted({ path: `${path}.type`, listed, counted: refused }, rules);
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
    if (isFree(name) || rules.fields.has(`${field}.${name}`)) continue;
    yield unlisted({ path: `${field}.${shownName(name, nameLengthMax)}`, counted: field }, rules);
  }
}

/** Checks what the model server would compile: its cost is unbounded. */
function* grammarFaults(grammars: Iterable<ClientGrammar>, rules: Rules): Generator<ValidationIssue> {
  for (const { path, field, listed } of grammars) {
    if (!rules.fields.has(listed)) yield unlisted({ path, listed, counted: field }, rules);
  }
}

/**
 * Whether no published description of the endpoint and no model server has this field, as far as this service knows, so that it can be
 * dropped. What is refused for a reason is known, also in other letters than those of its name, which some servers read.
 */
function isUnknownField(field: string, published: ReadonlySet<string>): boolean {
  const name = foldedName(field);
  return !published.has(name) && countedName(name) === 'other' && !isLimitField(name) && !isLimitField(field);
}
