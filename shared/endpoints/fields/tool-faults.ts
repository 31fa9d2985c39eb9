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

export function* toolFault(tool: Json, path: string, { name, tools: allowed }: ToolRules): Generator<ValidationIssue> {
  yield* misspeltTypes(tool, { path, refused: 'tools' });
  if (tool.type == null || allowed.has(tool.type)) return;
  const message = `expected ${[...allowed].join(' or ')} (the operator can allow others in extra_tools of the model "${name}")`;
  yield { path: `${path}.type`, message, refused: 'tools' };
}
