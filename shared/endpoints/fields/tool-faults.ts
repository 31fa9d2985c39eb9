import { isObject } from '../../is-object.ts';
import type { ValidationIssue } from '../../validation-issues.ts';
import { foldedName, misspeltTypes } from './folded-name.ts';

type Json = Readonly<Record<string, unknown>>;

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
export function* groupedTools(tool: Json, path: string): Generator<{ tool: Json; path: string }> {
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
