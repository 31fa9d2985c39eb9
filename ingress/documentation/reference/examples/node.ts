import { Expression, enclose, printValue, scriptNotation } from './print-value.ts';
import type { RequestExample } from './request-example.ts';
import { type SdkCall, sdkCalls } from './sdk-calls.ts';

/** A request as a program for Node: with an official package where it has a method for it, else with `fetch`. */
export function writeNode(example: RequestExample): string {
  const call = sdkCalls[example.id];
  return call === undefined ? writeFetch(example) : writeSdk(example, call);
}

const clients: Record<SdkCall['sdk'], { name: string; package: string; base: string }> = {
  openai: { name: 'OpenAI', package: 'openai', base: '/openai/v1' },
  anthropic: { name: 'Anthropic', package: '@anthropic-ai/sdk', base: '' },
};
const results = { text: 'await answer.text()', page: 'answer.data', whole: 'answer' };
const place = { notation: scriptNotation, indent: '', step: '  ' };
const print = (value: unknown, indent = '') => printValue(value, { ...place, indent });

function writeSdk({ baseUrl, parameters, credential, body, file }: RequestExample, call: SdkCall): string {
  const { name, package: from, base } = clients[call.sdk];
  const form = file && { purpose: 'batch', file: new Expression(`createReadStream(${print(file)})`) };
  const fields = form ?? body;
  const values = [...parameters.map((value) => print(value)), ...(fields === undefined ? [] : [print(fields)])];
  return [
    ...(file === undefined ? [] : ["import { createReadStream } from 'node:fs';"]),
    `import ${name} from '${from}';`,
    '',
    `const client = new ${name}({`,
    `  baseURL: ${print(baseUrl + base)},`,
    `  apiKey: process.env.${credential},`,
    '});',
    `const answer = await client.${call.method}(${values.join(', ')});`,
    `console.log(${results[call.result ?? 'whole']});`,
  ].join('\n');
}

function writeFetch({ method, baseUrl, path, credential, body }: RequestExample): string {
  const headers = {
    ...(credential !== undefined && { authorization: new Expression(`\`Bearer \${process.env.${credential}}\``) }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  const options = [
    ...(method === 'GET' ? [] : [`method: ${print(method)}`]),
    ...(Object.keys(headers).length === 0 ? [] : [`headers: ${print(headers, '  ')}`]),
    ...(body === undefined ? [] : [`body: JSON.stringify(${print(body, '  ')})`]),
  ];
  const values = [
    print(`${baseUrl}${path}`),
    ...(options.length === 0 ? [] : [enclose(options, { ...place, brackets: '{}' })]),
  ];
  return `const response = await fetch(${values.join(', ')});\nconsole.log(await response.json());`;
}
