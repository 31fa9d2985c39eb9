import type { ValidationIssue } from '../../errors.ts';
import { isObject, type Json } from '../../json/json-values.ts';
import { changedObjects } from './absent-fields.ts';

/**
 * Types of tools that the provider of an API runs itself, or that group others for it. Agents send them unasked, and no model server has
 * them. `mcp` is none of them: it names a server that would be called. Nor are `local_shell`, `shell` and `apply_patch`, which the client
 * runs and would miss.
 */
const openAiTools = new Set([
  ...['file_search', 'code_interpreter', 'image_generation', 'namespace', 'tool_search', 'programmatic_tool_calling'],
]);
/** With the date of a version, and in other variants. */
const openAiFamilies = /^(?:web_search|computer)(?:_[a-z0-9_]{1,40})?$/;

/** The types of OpenAI's Responses API (`Tool` of openai/openai-openapi). */
export const isHostedByOpenAi = (type: string): boolean => openAiTools.has(type) || openAiFamilies.test(type);

/**
 * Anthropic's server tools (Anthropic's documentation, "Server tools"). `bash`, `text_editor`, `computer`, `memory` and the toolsets are
 * client tools: the client that sends them runs them, so it would miss them.
 */
export const isHostedByAnthropic = (type: string): boolean =>
  /^(?:web_search|web_fetch|code_execution|advisor|tool_search_tool(?:_regex|_bm25)?)(?:_\d{8})?$/.test(type);

type Rules = { isHosted: (type: string) => boolean; allowed: ReadonlySet<unknown>; holdTools: readonly string[] };

/** `issue`: the choice of tools needs one that was dropped. */
export type WithoutTools = { request: Json; dropped: readonly string[]; issue?: ValidationIssue };

/**
 * Returns the request without the hosted tools that its model does not allow (contract.md#d12-hosted-tools), and what was dropped, by names
 * for the client. A choice of tools that would then name a missing one, or demand a call of none, is an issue.
 */
export function withoutHostedTools(request: Json, hosted: Rules): WithoutTools {
  const found: Tools = { dropped: [], kept: [], updates: 0 };
  const changed: Record<string, unknown> = { tools: keptTools(request.tools, hosted, found) };
  for (const field of hosted.holdTools) {
    changed[field] = changedObjects(request[field], (item) => keptItem(item, hosted, found));
  }
  if (found.dropped.length === 0 && found.updates === 0) return { request, dropped: [] };
  const types = [...new Set(found.dropped.map(({ type }) => String(type)))];
  const include = includeWithout(request.include, types);
  const issue = types.length === 0 ? undefined : issueOf(request.tool_choice, found, hosted);
  const updates = found.updates === 0 ? [] : [`input.${configurationUpdate}`];
  const differing = Object.entries(changed).filter(([field, value]) => value !== request[field]);
  return {
    request: withoutEmpty({ ...request, ...Object.fromEntries(differing), ...include.changed }, found),
    dropped: [...types.map((type) => `tools.${type}`), ...include.dropped, ...updates],
    ...(issue && { issue }),
  };
}

type Tools = { dropped: Json[]; kept: Json[]; updates: number };

/** The type of an item with which agents change the effort of reasoning. Model servers read only that of the request. */
export const configurationUpdate = 'configuration_update';

function isDropped(type: unknown, { isHosted, allowed }: Rules): boolean {
  return typeof type === 'string' && isHosted(type) && !allowed.has(type);
}

function keptTools(tools: unknown, hosted: Rules, found: Tools): unknown {
  return changedObjects(tools, (tool) => {
    const drops = isDropped(tool.type, hosted);
    (drops ? found.dropped : found.kept).push(tool);
    return drops ? undefined : tool;
  });
}

/** An item that only adds tools means nothing without them. */
function keptItem(item: Json, hosted: Rules, found: Tools): Json | undefined {
  if (item.type === configurationUpdate && item.text == null) {
    found.updates++;
    return undefined;
  }
  const tools = keptTools(item.tools, hosted, found);
  if (tools === item.tools) return item;
  const isEmpty = Array.isArray(tools) && tools.length === 0;
  return isEmpty && item.type === 'additional_tools' ? undefined : { ...item, tools };
}

/** Without tools, a choice of them and how they are called mean nothing, and some model servers refuse them. */
function withoutEmpty(request: Json, { dropped, kept }: Tools): Json {
  if (dropped.length === 0) return request;
  const isEmpty = Array.isArray(request.tools) && request.tools.length === 0;
  const empty = new Set([
    ...(isEmpty ? ['tools'] : []),
    ...(kept.length === 0 ? ['tool_choice', 'parallel_tool_calls'] : []),
  ]);
  return Object.fromEntries(Object.entries(request).filter(([field]) => !empty.has(field)));
}

/** What the answer is asked to include of calls of a dropped tool: `web_search_call.action.sources`. */
function includeWithout(include: unknown, types: readonly string[]): { changed: Json; dropped: string[] } {
  if (!Array.isArray(include)) return { changed: {}, dropped: [] };
  const families = new Set(types.map((type) => type.replace(/_(?:preview|use|20\d\d).*$/, '')));
  const isOfDropped = (entry: unknown) =>
    typeof entry === 'string' && families.has(/^([a-z_]{1,40})_call[._]/.exec(entry)?.[1] ?? '');
  const dropped = include.filter(isOfDropped).map((entry) => `include.${entry}`);
  if (dropped.length === 0) return { changed: {}, dropped };
  return { changed: { include: include.filter((entry) => !isOfDropped(entry)) }, dropped };
}

/** OpenAI's choices have the type of a tool, or a name, or a list of either; Anthropic's have a name. */
function issueOf(choice: unknown, { dropped, kept }: Tools, hosted: Rules): ValidationIssue | undefined {
  const issue = (message: string) => ({ path: 'tool_choice', message, refused: 'tools' });
  const [missing, left] = [namesOf(dropped), namesOf(kept)];
  const isMissing = ({ type, name }: Json) =>
    isDropped(type, hosted) || (name !== undefined && missing.has(name) && !left.has(name));
  if (chosenIn(choice).some(isMissing)) return issue('names a tool that this model does not offer');
  const demand = isObject(choice) ? choice.type : choice;
  if (kept.length > 0 || demand == null || demand === 'auto' || demand === 'none') return undefined;
  return issue('demands a call, but this model offers none of these tools');
}

/** The tools that a choice names. */
function chosenIn(choice: unknown): Json[] {
  if (!isObject(choice)) return [];
  const { tools, allowed_tools: allowed } = choice;
  const lists = [tools, isObject(allowed) ? allowed.tools : undefined].filter(Array.isArray);
  return [choice, ...lists.flat().filter(isObject)];
}

/** The names of tools, and of those in a group. */
function namesOf(tools: readonly Json[]): ReadonlySet<unknown> {
  const grouped = tools.flatMap(({ tools: inner }) => (Array.isArray(inner) ? inner.filter(isObject) : []));
  return new Set([...tools, ...grouped].map(({ name }) => name).filter((name) => name !== undefined));
}
