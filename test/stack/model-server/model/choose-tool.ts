import type { Message } from './text.ts';

/** A tool that a request offers, with the JSON schema of its arguments, or without if its input is a text. */
export interface Tool {
  readonly name: string;
  readonly schema?: unknown;
  readonly isCustom?: boolean;
  /** The name of the group that it is in. */
  readonly namespace?: string;
  /** Its input is JavaScript, which runs commands with `tools.exec_command`: the tool `exec` of Codex. */
  readonly runsScripts?: boolean;
}

/** A loop of tools ends after this many results. */
const resultsMax = 2;

const shells = /^(?:bash|shell|exec_command|run_command|run_shell_command|execute_command|terminal|local_shell)$/i;

/**
 * The call that the model makes without being told to, as agents need it: of a shell if there is one, else of the first function, else of
 * the first tool. None after two results in the conversation.
 */
export function unaskedCall(
  tools: readonly Tool[],
  messages: readonly Message[],
): { tool: Tool; arguments: string } | undefined {
  const results = messages.filter(({ role }) => role === 'tool').length;
  const shell = tools.find(({ name, runsScripts }) => runsScripts || shells.test(name));
  const tool = shell ?? tools.find(({ isCustom }) => isCustom !== true) ?? tools[0];
  if (tool === undefined || results >= resultsMax) return undefined;
  const command = commandOf(results + 1);
  if (tool.isCustom) return { tool, arguments: tool.runsScripts ? scriptOf(command) : command };
  return { tool, arguments: JSON.stringify(exampleOf(tool.schema, command)) };
}

function scriptOf(command: string): string {
  return `text((await tools.exec_command({ cmd: ${JSON.stringify(command)} })).output);`;
}

/** Its output differs from its text, which shows that it has run. */
function commandOf(step: number): string {
  return `echo "step $((${step - 1} + 1)) of ${resultsMax}"`;
}

/** Deeper values are left out, whether they are required or not. */
const depthMax = 5;

/** A value that a schema allows, as far as simple schemas go: of an object, its required members, and its command. */
function exampleOf(schema: unknown, command: string, depth = 0): unknown {
  const { type, enum: values, const: only, default: usual, minimum = 1, ...more } = fieldsOf(schema);
  const [option] = [more.anyOf, more.oneOf, more.allOf].flatMap((each) => (Array.isArray(each) ? each : []));
  if (only !== undefined || usual !== undefined) return only ?? usual;
  if (Array.isArray(values) && values.length > 0) return values[0];
  if (type === undefined && option !== undefined)
    return depth < depthMax ? exampleOf(option, command, depth + 1) : null;
  switch (Array.isArray(type) ? type[0] : type) {
    case 'string':
      return 'text';
    case 'number':
    case 'integer':
      return minimum;
    case 'boolean':
      return false;
    case 'null':
      return null;
    case 'array':
      return Number(more.minItems) > 0 && depth < depthMax ? [exampleOf(more.items, command, depth + 1)] : [];
    default:
      return membersOf(more, command, depth);
  }
}

function membersOf({ properties, required }: Fields, command: string, depth: number): object {
  const names = new Set<unknown>(Array.isArray(required) ? required : []);
  const members = Object.entries(fieldsOf(properties)).flatMap(([name, schema]): [string, unknown][] => {
    if (depth === 0 && (name === 'command' || name === 'cmd')) return [[name, commandIn(schema, command)]];
    return names.has(name) && depth < depthMax ? [[name, exampleOf(schema, command, depth + 1)]] : [];
  });
  return Object.fromEntries(members);
}

/** A command is one text, or the words of one. */
function commandIn(schema: unknown, command: string): unknown {
  return fieldsOf(schema).type === 'array' ? ['bash', '-c', command] : command;
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}; // of any client
}
