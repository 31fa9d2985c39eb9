import { Expression, enclose, jsonNotation, printValue, pythonNotation, scriptNotation } from './print-value.ts';
import type { RequestExample } from './request-example.ts';

/** A request as a shell command. */
export function writeCurl({ method, baseUrl, path, credential, body, file }: RequestExample): string {
  const isImplied = method === 'GET' || (method === 'POST' && (body !== undefined || file !== undefined));
  const first = `curl -s ${quoted(`${baseUrl}${path}`)}${isImplied ? '' : ` -X ${method}`}`;
  const json = body && printValue(body, { notation: jsonNotation, indent: '  ', step: '  ' });
  const options = [
    ...(credential === undefined ? [] : [`-H "authorization: Bearer $${credential}"`]),
    ...(json === undefined ? [] : ["-H 'content-type: application/json'", `-d ${singleQuoted(json)}`]),
    ...(file === undefined ? [] : [`-F purpose=batch -F file=@${file}`]),
  ];
  return [first, ...options.map((option) => `  ${option}`)].join(' \\\n');
}

function quoted(address: string): string {
  return /^[\w:/.%-]+$/.test(address) ? address : singleQuoted(address);
}

function singleQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A request as a program for Node: with an official package where it has a method for it, else with `fetch`. */
export function writeNode(example: RequestExample): string {
  const call = sdkCalls[example.id];
  return call === undefined ? writeFetch(example) : callInNode(example, call);
}

const nodeResults = { text: 'await answer.text()', page: 'answer.data', whole: 'answer' };
const nodePlace = { notation: scriptNotation, indent: '', step: '  ' };
const printNode = (value: unknown, indent = '') => printValue(value, { ...nodePlace, indent });

function callInNode({ baseUrl, parameters, credential, body, file }: RequestExample, call: SdkCall): string {
  const { name, node, base } = sdks[call.sdk];
  const form = file && { purpose: 'batch', file: new Expression(`createReadStream(${printNode(file)})`) };
  const fields = form ?? body;
  const values = [...parameters.map((value) => printNode(value)), ...(fields === undefined ? [] : [printNode(fields)])];
  return [
    ...(file === undefined ? [] : ["import { createReadStream } from 'node:fs';"]),
    `import ${name} from '${node}';`,
    '',
    `const client = new ${name}({`,
    `  baseURL: ${printNode(baseUrl + base)},`,
    `  apiKey: process.env.${credential},`,
    '});',
    `const answer = await client.${call.method}(${values.join(', ')});`,
    `console.log(${nodeResults[call.result ?? 'whole']});`,
  ].join('\n');
}

function writeFetch({ method, baseUrl, path, credential, body }: RequestExample): string {
  const headers = {
    ...(credential !== undefined && { authorization: new Expression(`\`Bearer \${process.env.${credential}}\``) }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  const options = [
    ...(method === 'GET' ? [] : [`method: ${printNode(method)}`]),
    ...(Object.keys(headers).length === 0 ? [] : [`headers: ${printNode(headers, '  ')}`]),
    ...(body === undefined ? [] : [`body: JSON.stringify(${printNode(body, '  ')})`]),
  ];
  const values = [
    printNode(`${baseUrl}${path}`),
    ...(options.length === 0 ? [] : [enclose(options, { ...nodePlace, brackets: '{}' })]),
  ];
  return `const response = await fetch(${values.join(', ')});\nconsole.log(await response.json());`;
}

/** A request as a program in Python: with an official package where it has a method for it, else with the standard library. */
export function writePython(example: RequestExample): string {
  const call = sdkCalls[example.id];
  return call === undefined ? writeRequest(example) : callInPython(example, call);
}

const pythonResults = { text: 'answer.text', page: 'answer.data', whole: 'answer' };
const step = '    ';
const pythonPlace = { notation: pythonNotation, indent: '', step };
/** A value that begins on a line within brackets, after this text. */
const printPython = (value: unknown, after = '') =>
  printValue(value, { ...pythonPlace, indent: step, before: after.length });
const withUnderscores = (method: string) => method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function callInPython({ baseUrl, parameters, credential, body, file }: RequestExample, call: SdkCall): string {
  const { name, python, base } = sdks[call.sdk];
  const form = file && { purpose: 'batch', file: new Expression(`open(${printPython(file)}, "rb")`) };
  const fields = Object.entries(form ?? body ?? {}).map(
    ([field, value]) => `${field}=${printPython(value, `${field}=`)}`,
  );
  const values = [...parameters.map((value) => printPython(value)), ...fields];
  const called = `answer = client.${withUnderscores(call.method)}`;
  return [
    `import os\nfrom ${python} import ${name}`,
    '',
    `client = ${name}(`,
    `${step}base_url=${printPython(baseUrl + base)},`,
    `${step}api_key=os.environ["${credential}"],`,
    ')',
    called + enclose(values, { ...pythonPlace, brackets: '()', before: called.length }),
    `print(${pythonResults[call.result ?? 'whole']})`,
  ].join('\n');
}

function writeRequest({ method, baseUrl, path, credential, body }: RequestExample): string {
  const headers = {
    ...(credential !== undefined && { authorization: new Expression(`"Bearer " + os.environ["${credential}"]`) }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  const values = [
    printPython(`${baseUrl}${path}`),
    ...(method === 'GET' ? [] : [`method=${printPython(method)}`]),
    ...(Object.keys(headers).length === 0 ? [] : [`headers=${printPython(headers, 'headers=')}`]),
    ...(body === undefined ? [] : [`data=json.dumps(${printPython(body, 'data=json.dumps()')}).encode()`]),
  ];
  const modules = ['json', ...(credential === undefined ? [] : ['os']), 'urllib.request'];
  return [
    ...modules.map((name) => `import ${name}`),
    '',
    `request = urllib.request.Request${enclose(values, { ...pythonPlace, brackets: '()' })}`,
    'print(json.load(urllib.request.urlopen(request)))',
  ].join('\n');
}

/** The official packages: their client, their names for Node and for Python, and the base path that they are given. */
const sdks = {
  openai: { name: 'OpenAI', node: 'openai', python: 'openai', base: '/openai/v1' },
  anthropic: { name: 'Anthropic', node: '@anthropic-ai/sdk', python: 'anthropic', base: '' },
};

/** A method of an official package. `text`: its result is a file, which has a text. `page`: it is a page with items in `data`. */
type SdkCall = { sdk: keyof typeof sdks; method: string; result?: 'text' | 'page' };

/** The operations for which official packages have a method, by their ids. Python writes the same names with underscores. */
export const sdkCalls: Readonly<Record<string, SdkCall>> = {
  createChatCompletion: { sdk: 'openai', method: 'chat.completions.create' },
  createResponse: { sdk: 'openai', method: 'responses.create' },
  createMessage: { sdk: 'anthropic', method: 'messages.create' },
  countMessageTokens: { sdk: 'anthropic', method: 'messages.countTokens' },
  createCompletion: { sdk: 'openai', method: 'completions.create' },
  createEmbedding: { sdk: 'openai', method: 'embeddings.create' },
  listModels: { sdk: 'openai', method: 'models.list', result: 'page' },
  retrieveModel: { sdk: 'openai', method: 'models.retrieve' },
  uploadFile: { sdk: 'openai', method: 'files.create' },
  listFiles: { sdk: 'openai', method: 'files.list', result: 'page' },
  retrieveFile: { sdk: 'openai', method: 'files.retrieve' },
  retrieveFileContent: { sdk: 'openai', method: 'files.content', result: 'text' },
  deleteFile: { sdk: 'openai', method: 'files.delete' },
  createBatch: { sdk: 'openai', method: 'batches.create' },
  listBatches: { sdk: 'openai', method: 'batches.list', result: 'page' },
  retrieveBatch: { sdk: 'openai', method: 'batches.retrieve' },
  cancelBatch: { sdk: 'openai', method: 'batches.cancel' },
};
