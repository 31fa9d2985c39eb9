import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { createListedFields } from '../../shared/endpoints/fields/listed-fields.ts';
import { type PlanFile, parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const faultLengthMax = 1_300;
const faultsMax = 100;
const globals = Object.getOwnPropertyNames(Object.prototype).join();

/** Plan files, as an operator writes them, or another file that was named by mistake. */
export const planFiles: FuzzTarget = {
  promise: 'any text is a plan, or faults with their places, within two seconds for 8 KiB',
  words: [
    ...[
      '&a ',
      '*a',
      '<<: *a',
      '!!str ',
      '!!binary ',
      '!!set ',
      '!!omap ',
      '!!js/function ',
      '!a',
      '%YAML 1.1\n---\n',
      '%TAG ! a',
    ],
    ...[
      '---\n',
      '...\n',
      '- ',
      '? ',
      ': ',
      '#',
      '|\n',
      '>-\n',
      '"',
      "'",
      '[',
      ']',
      '{',
      '}',
      ',',
      '\n',
      '\t',
      '  ',
      '\r\n',
      '\0',
    ],
    ...[
      'null',
      '~',
      'true',
      '.inf',
      '.nan',
      '-0',
      '1e400',
      '0x10',
      '0o7',
      '1_000',
      '9007199254740993',
      '2026-01-01',
      '""',
    ],
    ...[
      '__proto__:',
      'constructor:',
      'toString',
      'plans:',
      'models:',
      'backends:',
      'free:',
      'guest-device:',
      'model_tiers:',
    ],
    ...[
      'batch: ',
      'timeouts: {}',
      'url: ',
      'http://[::1',
      'media_hosts: ["*"]',
      'prices: {m: [{from: ',
      'prompt: 0.15',
      '\ufeff',
      '\u2028',
      '\ud7ff',
      '[a]: b',
      '{a: b}: c',
    ],
  ],
  // The parser compares each key of a map with all others: 2,000 keys, in 16 KiB, take a second.
  bytesMax: 8_192,
  check(input) {
    const parsed = parsePlanFile(input.toString());
    require(Object.getOwnPropertyNames(Object.prototype).join() ===
      globals, 'the prototype of all objects has changed');
    if ('planFile' in parsed) {
      checkPlan(parsed.planFile);
      return 'accepted';
    }
    const { length } = parsed.issues;
    require(length > 0 && length <= faultsMax, `it has ${length} faults`);
    for (const { path, message } of parsed.issues) {
      require(message !== '' &&
        path.length + message.length <= faultLengthMax, `a fault of ${message.length} characters`);
      require(path !== '' || namesPlace(message), `a fault has no place: ${message}`);
    }
    return parsed.issues[0]?.path === '' ? 'no YAML' : 'faults';
  },
};

/** A line of the file, an alias or a key in it, or the file as such. */
function namesPlace(message: string): boolean {
  return /\bline \d+|\balias\b|^expected object/.test(message);
}

/** Everything in it is frozen, its names exist, and the code that reads plans can read it. */
function checkPlan(planFile: PlanFile): void {
  requireFrozen(planFile);
  require(Object.hasOwn(planFile.plans, planFile.defaultPlan), 'there is no default plan');
  for (const [name, { backends, outputTokensMax }] of Object.entries(planFile.models)) {
    require(backends.every((backend) => planFile.backends[backend] !== undefined), `a backend of ${name} is missing`);
    const limit = outputTokensMax ?? 1;
    require(Number.isSafeInteger(limit) && limit > 0, `the output limit of ${name} is invalid`);
  }
  for (const names of [planFile.plans, planFile.models, planFile.backends]) {
    require(Object.getPrototypeOf(names) === null, 'names of the prototype are found');
  }
  const [model = ''] = Object.keys(planFile.models);
  createListedFields(planFile).issuesIn({ model }, model, endpointAt('/v1/chat/completions').request.fields);
}

function requireFrozen(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  require(Object.isFrozen(value), 'a part of it can be changed');
  for (const part of Object.values(value)) requireFrozen(part);
}
