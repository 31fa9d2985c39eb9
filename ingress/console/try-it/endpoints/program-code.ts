/** The base address of the API for OpenAI's SDKs: with it, errors have the shape that they read. */
export function openAiUrl(baseUrl: string): string {
  return `${baseUrl}/openai/v1`;
}

export function curlCode(url: string, request: object): string {
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -N ${url} \\
  -H "authorization: Bearer $KEY" \\
  -H 'content-type: application/json' \\
  -d '${body}'`;
}

/** A program with OpenAI's SDK for Node, with these lines after the client. */
export function openAiNode(baseUrl: string, lines: string): string {
  return `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${JSON.stringify(openAiUrl(baseUrl))}, apiKey: process.env.KEY });
${lines}`;
}

/** The same in Python. */
export function openAiPython(baseUrl: string, lines: string): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(openAiUrl(baseUrl))}, api_key=os.environ["KEY"])
${lines}`;
}

/** The fields of a request as arguments of a call in Python. */
export function pythonArguments(request: object): string {
  return Object.entries(request)
    .map(([name, value]) => `    ${name}=${pythonOf(value)},`)
    .join('\n');
}

/** A JSON value without null as Python. Strings and numbers are the same in both. */
export function pythonOf(value: unknown, indent = '    '): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const inner = `${indent}    `;
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => pythonOf(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonOf(item, inner)}`);
  const lines = items.map((item) => `${inner}${item},\n`).join('');
  return isList ? `[\n${lines}${indent}]` : `{\n${lines}${indent}}`;
}
