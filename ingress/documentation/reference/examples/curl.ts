import { jsonNotation, printValue } from './print-value.ts';
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
