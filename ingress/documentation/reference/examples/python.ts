import { Expression, enclose, printValue, pythonNotation } from './print-value.ts';
import type { RequestExample } from './request-example.ts';
import { type SdkCall, sdkCalls } from './sdk-calls.ts';

/** A request as a program in Python: with an official package where it has a method for it, else with the standard library. */
export function writePython(example: RequestExample): string {
  const call = sdkCalls[example.id];
  return call === undefined ? writeRequest(example) : writeSdk(example, call);
}

const clients: Record<SdkCall['sdk'], { name: string; package: string; base: string }> = {
  openai: { name: 'OpenAI', package: 'openai', base: '/openai/v1' },
  anthropic: { name: 'Anthropic', package: 'anthropic', base: '' },
};
const results = { text: 'answer.text', page: 'answer.data', whole: 'answer' };
const step = '    ';
const place = { notation: pythonNotation, indent: '', step };
/** A value that begins on a line within brackets, after this text. */
const print = (value: unknown, after = '') => printValue(value, { ...place, indent: step, before: after.length });
const withUnderscores = (method: string) => method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function writeSdk({ baseUrl, parameters, credential, body, file }: RequestExample, call: SdkCall): string {
  const { name, package: from, base } = clients[call.sdk];
  const form = file && { purpose: 'batch', file: new Expression(`open(${print(file)}, "rb")`) };
  const fields = Object.entries(form ?? body ?? {}).map(([field, value]) => `${field}=${print(value, `${field}=`)}`);
  const values = [...parameters.map((value) => print(value)), ...fields];
  const called = `answer = client.${withUnderscores(call.method)}`;
  return [
    `import os\nfrom ${from} import ${name}`,
    '',
    `client = ${name}(`,
    `${step}base_url=${print(baseUrl + base)},`,
    `${step}api_key=os.environ["${credential}"],`,
    ')',
    called + enclose(values, { ...place, brackets: '()', before: called.length }),
    `print(${results[call.result ?? 'whole']})`,
  ].join('\n');
}

function writeRequest({ method, baseUrl, path, credential, body }: RequestExample): string {
  const headers = {
    ...(credential !== undefined && { authorization: new Expression(`"Bearer " + os.environ["${credential}"]`) }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  const values = [
    print(`${baseUrl}${path}`),
    ...(method === 'GET' ? [] : [`method=${print(method)}`]),
    ...(Object.keys(headers).length === 0 ? [] : [`headers=${print(headers, 'headers=')}`]),
    ...(body === undefined ? [] : [`data=json.dumps(${print(body, 'data=json.dumps()')}).encode()`]),
  ];
  const modules = ['json', ...(credential === undefined ? [] : ['os']), 'urllib.request'];
  return [
    ...modules.map((name) => `import ${name}`),
    '',
    `request = urllib.request.Request${enclose(values, { ...place, brackets: '()' })}`,
    'print(json.load(urllib.request.urlopen(request)))',
  ].join('\n');
}
