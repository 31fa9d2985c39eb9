import type { ValidationIssue } from '../../errors.ts';
import { isObject, type Json } from '../../json/json-values.ts';
import { foldedName, misspeltTypes } from './field-names.ts';

/**
 * A regular expression or a grammar of a client that the model server would compile: `path` says where it is, `listed` what `extra_fields`
 * must contain to allow it.
 */
export type ClientGrammar = { path: string; field: string; listed: 'guided_regex' | 'guided_grammar' };

/** `outputFormat`: the path of the output format. `holdTools`: fields with lists of objects that may have tools of their own. */
type Places = { outputFormat: readonly string[]; holdTools: readonly string[] };

/**
 * Yields those in the output format, in fields of model servers that hold a schema, and in tools. A pattern in the schema of a tool counts
 * only if the server must follow the schema: `strict`, or a `tool_choice` that demands a call. In other schemas it is a hint for the model,
 * which `withoutPatterns` removes, except of tools within messages or items.
 */
export function* clientGrammars(request: Json, { outputFormat, holdTools }: Places): Generator<ClientGrammar> {
  const { structured_outputs: structured, guided_json, json_schema, output_format } = request;
  const format = outputFormat.reduce<unknown>((value, step) => (isObject(value) ? value[step] : undefined), request);
  const schemas: Record<string, unknown> = { guided_json, json_schema, output_format };
  if (isObject(structured)) schemas['structured_outputs.json'] = structured.json;
  if (outputFormat.length > 0) schemas[outputFormat.join('.')] = format;
  for (const [path, schema] of Object.entries(schemas)) yield* patternsOf(schema, path, path.replace(/\..*$/, ''));
  const choices = [demandsOf(request.tool_choice), demandsOf(request.function_call)];
  const isDemanded = (tool: Json) => choices.some((demands) => demands(tool));
  for (const field of ['tools', 'functions']) yield* inTools(request[field], { path: field, field, isDemanded });
  for (const field of holdTools) yield* inHeldTools(request[field], field);
}

function* inHeldTools(items: unknown, field: string): Generator<ClientGrammar> {
  if (!Array.isArray(items)) return;
  for (let index = 0; index < items.length; index++) {
    const item: unknown = items[index];
    if (!isObject(item)) continue;
    for (const name in item) {
      const path = `${field}[${index}].${name}`;
      if (foldedName(name) === 'tools') yield* inTools(item[name], { path, field: 'tools', isDemanded: () => true });
    }
  }
}

type Place = { path: string; field: string };

function* inTools(
  tools: unknown,
  { path: list, field, isDemanded }: Place & { isDemanded: Demands },
): Generator<ClientGrammar> {
  if (!Array.isArray(tools)) return;
  for (let index = 0; index < tools.length; index++) {
    const tool: unknown = tools[index];
    const path = `${list}[${index}]`;
    if (isObject(tool)) yield* grammarsOfTool(tool, { path, field, isDemanded });
  }
}

/** Yields those in one tool, or in a group of tools. */
export function* grammarsOfTool(
  tool: Json,
  { path, field, isDemanded }: Place & { isDemanded: Demands },
): Generator<ClientGrammar> {
  yield* ownGrammars(tool, { path, field, isDemanded: isDemanded(tool) });
  for (const grouped of groupedTools(tool, path)) {
    const demanded = isDemanded(tool) || isDemanded(grouped.tool);
    yield* ownGrammars(grouped.tool, { path: grouped.path, field, isDemanded: demanded });
  }
}

function* ownGrammars(
  tool: Json,
  { path, field, isDemanded }: Place & { isDemanded: boolean },
): Generator<ClientGrammar> {
  yield* grammarOf(tool.format, `${path}.format`, field);
  if (isObject(tool.custom)) yield* grammarOf(tool.custom.format, `${path}.custom.format`, field);
  const isStrict = tool.strict === true || (isObject(tool.function) && tool.function.strict === true);
  if (isStrict || isDemanded) yield* patternsOf(tool, path, field);
}

/** The input format of a custom tool: text, or a grammar with a syntax of its own. */
function* grammarOf(format: unknown, path: string, field: string): Generator<ClientGrammar> {
  if (!isObject(format) || format.type == null || format.type === 'text') return;
  const { syntax } = isObject(format.grammar) ? format.grammar : format;
  yield { path, field, listed: syntax === 'regex' ? 'guided_regex' : 'guided_grammar' };
}

function* patternsOf(schema: unknown, path: string, field: string): Generator<ClientGrammar> {
  for (const keyword of schemaPatterns(schema)) yield { path: `${path}.${keyword}`, field, listed: 'guided_regex' };
}

/** Whether a choice of tools demands that this tool is called. */
type Demands = (tool: Json) => boolean;

/** Types of a choice that names a tool: Anthropic's, and OpenAI's. Its `function_call` has none. */
const namingTypes = new Set<unknown>(['tool', 'function', 'custom', undefined]);

/** OpenAI's `required` and Anthropic's `any` demand each of the tools, a name one of them. What is not known demands each. */
function demandsOf(choice: unknown): Demands {
  const { type, mode, allowed_tools: allowed }: Json = isObject(choice) ? choice : { type: choice ?? 'auto' };
  if (type === 'auto' || type === 'none') return () => false;
  if (type === 'allowed_tools') {
    const modes = [mode, isObject(allowed) ? allowed.mode : undefined].filter((each) => each !== undefined);
    const isFree = modes.length > 0 && modes.every((each) => each === 'auto');
    return () => !isFree;
  }
  const names = isObject(choice) && namingTypes.has(type) ? namesIn(choice) : [];
  return (tool) => names.length === 0 || namesIn(tool).some((name) => names.includes(name));
}

/** The names of a tool, or those in a choice, in any notation. */
function namesIn({ name, function: called, custom }: Json): unknown[] {
  const all = [name, isObject(called) ? called.name : undefined, isObject(custom) ? custom.name : undefined];
  return all.filter((each) => typeof each === 'string');
}

const keywords = new Set(['pattern', 'patternProperties']);

/** `pattern` may also be the name of a property: its value is then a schema. */
function isPattern(name: string, value: unknown): boolean {
  if (name === 'pattern') return typeof value === 'string';
  return name === 'patternProperties' && typeof value === 'object' && value !== null;
}

/** Members of a schema or of a tool that hold values and no schemas: a `pattern` in them is a value, too. */
const dataMembers = new Set(['default', 'const', 'enum', 'examples', 'input_examples']);
/** Members that hold schemas by any name, `default` as well. */
const schemaMaps = new Set(['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas']);

/** `isMap`: the value has schemas by their names. `withData`: values in it count as schemas. */
type Position = { isMap: boolean; withData: boolean };

const isData = (name: string, { isMap, withData }: Position) => !withData && !isMap && dataMembers.has(name);
const within = (name: string, { isMap, withData }: Position) => ({ isMap: !isMap && schemaMaps.has(name), withData });

/**
 * Returns which keywords of a JSON schema hold a client's regular expressions: `pattern` and `patternProperties`. A schema is an object, or
 * its JSON as a string, which some model servers accept. Each value is visited once. A string is searched and not parsed, so a string with
 * escaped letters, which no serializer writes, counts as having a `pattern`. So does data, if there is a reference that could lead there.
 */
function schemaPatterns(schema: unknown): ReadonlySet<string> {
  const found = new Set<string>();
  if (typeof schema === 'string') searchText(schema, found);
  else searchValue(schema, found, { isMap: false, withData: mayReferToData(schema) });
  return found;
}

function searchValue(value: unknown, found: Set<string>, position: Position): void {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      // An enumeration can have a million numbers.
      if (typeof value[index] === 'object') searchValue(value[index], found, { ...position, isMap: false });
    }
  } else if (isObject(value)) {
    for (const name in value) {
      const member = value[name];
      if (isPattern(name, member)) found.add(name);
      if (typeof member === 'object' && !isData(name, position)) searchValue(member, found, within(name, position));
    }
  }
}

const references = new Set(['$ref', '$dynamicRef', '$recursiveRef']);
const usualReference = /^#(\/(\$defs|definitions)\/[^/%]+)?$/;

/** Whether any reference leads elsewhere than to the whole schema or to one of its definitions. */
function mayReferToData(value: unknown): boolean {
  if (Array.isArray(value)) return value.some((item) => typeof item === 'object' && mayReferToData(item));
  if (!isObject(value)) return false;
  for (const name in value) {
    const member = value[name];
    if (references.has(name) && typeof member === 'string' && !usualReference.test(member)) return true;
    if (typeof member === 'object' && mayReferToData(member)) return true;
  }
  return false;
}

function searchText(text: string, found: Set<string>): void {
  if (/"pattern"\s*:\s*"|\\u00[4-7][0-9a-f]/i.test(text)) found.add('pattern');
  if (/"patternProperties"\s*:\s*\{/.test(text)) found.add('patternProperties');
}

/** Returns tools without the patterns in their schemas; undefined if there are none. */
export function withoutPatterns(tools: unknown): unknown {
  const found = new Set<string>();
  const top = { isMap: false, withData: mayReferToData(tools) };
  searchValue(tools, found, top);
  return found.size === 0 ? undefined : removePatterns(tools, top);
}

function removePatterns(value: unknown, position: Position): unknown {
  if (Array.isArray(value)) return value.map((item) => removePatterns(item, { ...position, isMap: false }));
  // A number as the client wrote it has no prototype, and is written again only as it is.
  if (!isObject(value) || Object.getPrototypeOf(value) === null) return value;
  const kept = Object.entries(value).filter(([name, member]) => !(keywords.has(name) && isPattern(name, member)));
  const cleaned = (name: string, member: unknown) =>
    isData(name, position) ? member : removePatterns(member, within(name, position));
  return Object.fromEntries(kept.map(([name, member]) => [name, cleaned(name, member)]));
}

/** `tools`: the types of tools that requests for the model of this name may have. */
type ToolRules = { name: string; tools: ReadonlySet<unknown> };

/** A tool of another type may name a server that the model server would call. */
export const publishedTools = ['function', 'custom'];

export function* heldToolFaults(field: string, items: unknown, rules: ToolRules): Generator<ValidationIssue> {
  if (!Array.isArray(items)) return;
  for (let index = 0; index < items.length; index++) {
    const item: unknown = items[index];
    if (!isObject(item)) continue;
    for (const name in item) {
      if (foldedName(name) === 'tools') yield* toolFaults(item[name], `${field}[${index}].${name}`, rules);
    }
  }
}

export function* toolFaults(tools: unknown, path: string, rules: ToolRules): Generator<ValidationIssue> {
  if (!Array.isArray(tools)) return;
  for (let index = 0; index < tools.length; index++) {
    const tool: unknown = tools[index];
    if (isObject(tool)) yield* toolFault(tool, `${path}[${index}]`, rules);
  }
}

export function* toolFault(tool: Json, path: string, rules: ToolRules): Generator<ValidationIssue> {
  yield* typeFault(tool, path, rules);
  for (const grouped of groupedTools(tool, path)) {
    yield* typeFault(grouped.tool, grouped.path, rules);
    for (const { path } of groupedTools(grouped.tool, grouped.path)) {
      yield { path, message: 'expected no group in a group', refused: 'tools' };
    }
  }
}

/** Yields the tools in a group of tools (OpenAI's `namespace`), to which the rules for tools apply as well. */
function* groupedTools(tool: Json, path: string): Generator<{ tool: Json; path: string }> {
  for (const name in tool) {
    const tools = tool[name];
    if (foldedName(name) !== 'tools' || !Array.isArray(tools)) continue;
    for (let index = 0; index < tools.length; index++) {
      const grouped: unknown = tools[index];
      if (isObject(grouped)) yield { tool: grouped, path: `${path}.${name}[${index}]` };
    }
  }
}

function* typeFault(tool: Json, path: string, { name, tools: allowed }: ToolRules): Generator<ValidationIssue> {
  yield* misspeltTypes(tool, { path, refused: 'tools' });
  if (tool.type == null || allowed.has(tool.type)) return;
  const message = `expected ${[...allowed].join(' or ')} (the operator can allow others in extra_tools of the model "${name}")`;
  yield { path: `${path}.type`, message, refused: 'tools' };
}
