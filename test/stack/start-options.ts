import { parseArgs } from 'node:util';
import type { WantedBackend } from './own-backends.ts';
import { dataDirectory } from './running-stack.ts';

export const startUsage = `Usage: npm start [-- <options>]
Runs the whole service on this machine until Ctrl-C; its data is kept in .data/.
--backend <url>         has your own model server in place of the simulated ones, such as http://127.0.0.1:11434/v1; can be
                        repeated. The first start asks what they serve and writes .data/backend-plans.yaml, where your changes stay
--backend-key-env NAME  the variable with the API key of the --backend before it
--write-plan            asks again, and writes that plan file again
--engine                has llama.cpp's server with small random models in place of the simulated model servers (needs Python)
--watch                 restarts the ingress and the worker when their source changes (the same as npm run dev)
--open                  opens the console in a browser
--verbose               prints all addresses, a sign-in token and example requests, too
--quiet                 prints no warnings and errors of the ingress and the worker
--data <folder>         keeps the data in this folder
--free-ports            listens on free ports instead of the usual ones; the plan file keeps those of the model servers`;

export type StartOptions = {
  backends: readonly WantedBackend[];
  writePlan: boolean;
  engine: boolean;
  watch: boolean;
  open: boolean;
  verbose: boolean;
  quiet: boolean;
  data: string;
  freePorts: boolean;
};

/** Returns what `npm start` is asked for. Throws an error for the developer. */
export function parseStartOptions(args: readonly string[]): StartOptions | 'help' {
  const { values, tokens } = parseArgs({
    args: [...args],
    tokens: true,
    options: {
      backend: { type: 'string', multiple: true },
      'backend-key-env': { type: 'string', multiple: true },
      'write-plan': { type: 'boolean', default: false },
      engine: { type: 'boolean', default: false },
      watch: { type: 'boolean', default: false },
      open: { type: 'boolean', default: false },
      verbose: { type: 'boolean', default: false },
      quiet: { type: 'boolean', default: false },
      data: { type: 'string', default: dataDirectory },
      'free-ports': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const {
    'write-plan': writePlan,
    'free-ports': freePorts,
    backend: _,
    'backend-key-env': __,
    help: ___,
    ...others
  } = values;
  const named = tokens.flatMap((token) =>
    token.kind === 'option' && token.value !== undefined ? [{ name: token.name, value: token.value }] : [],
  );
  const backends = backendsOf(named);
  if (others.engine && backends.length > 0) throw new Error('--engine and --backend exclude each other.');
  if (writePlan && backends.length === 0) throw new Error('--write-plan needs --backend.');
  return { ...others, backends, writePlan, freePorts };
}

/** Each key belongs to the server before it: it must not be sent to another one. */
function backendsOf(options: readonly { name: string; value: string }[]): WantedBackend[] {
  const backends: WantedBackend[] = [];
  for (const { name, value } of options) {
    if (name === 'backend') backends.push({ url: value });
    if (name !== 'backend-key-env') continue;
    const last = backends.at(-1);
    if (last === undefined) throw new Error('--backend-key-env needs a --backend before it.');
    if (!/^[A-Za-z_]\w*$/.test(value))
      throw new Error('--backend-key-env: expected the name of a variable, not the API key itself.');
    last.apiKeyEnv = value;
  }
  return backends;
}
