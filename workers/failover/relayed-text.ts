import { isIPv6 } from 'node:net';
import { endpoints } from '../../shared/endpoints/endpoints.ts';

const relayedLengthMax = 500;
/** The rest of a longer text is not read. */
const readLengthMax = 2_000;

const [secret, address, path] = ['[key]', '[address]', '[path]'];

/**
 * Returns a backend's message as it may leave the worker, for a client or the log: without the key of the call, anything else that looks
 * like a credential, addresses and absolute paths. At most 500 characters; empty if none are left.
 */
export function relayedText(text: string, apiKey: string | undefined): string {
  const read = beginningOf(withoutKey(text.replace(invisible, ''), apiKey));
  return withoutAddresses(withoutPaths(withoutSecrets(read)))
    .slice(0, relayedLengthMax)
    .trim();
}

/** Control and format characters except white space. Between two letters of a key, they would hide it. */
const invisible = /[^\P{C}\s]/gu;

/** A shorter key is not removed, because that would remove letters from words. */
const keyLengthMin = 4;
/** A text may be cut within the key. This much of its beginning is recognized as the key. */
const keyBeginning = 8;

/** On the complete text, before it is cut. */
function withoutKey(text: string, apiKey: string | undefined): string {
  if (apiKey === undefined || apiKey.length < keyLengthMin) return text;
  const encoded = encodeURIComponent(apiKey);
  const cut = text.replaceAll(apiKey, secret).replaceAll(encoded, secret);
  if (apiKey.length < 2 * keyBeginning) return cut;
  const beginning = apiKey.slice(0, keyBeginning).replace(/[^\w\s]/g, '\\$&');
  return cut.replace(new RegExp(`${beginning}[^\\s"']*`, 'g'), secret);
}

/** Up to the last space, because half a credential would not be recognized. */
function beginningOf(text: string): string {
  return text.length <= readLengthMax ? text : text.slice(0, readLengthMax).replace(/\S+$/, '');
}

const url = /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi;
const authorization =
  /\b(?:(bearer)(?:\s+|%20|\+)[^\s"',;]+|(basic|digest|negotiate)\s+(?=[A-Za-z0-9+/]*[\d=])[A-Za-z0-9+/=]{8,})/gi;
const named =
  /\b((?:x-)?(?:api|access|secret|auth|private)[-_ ]?(?:key|token)|(?:client[-_ ]?)?secret|password|passwd|pwd|authorization|credentials?)((?:\s+\w+){0,2}["']?\s*[:=]\s*["']?)[^\s"',;&]+/gi;
/** By the prefixes of well-known issuers of keys. */
const prefixed =
  /(?<![A-Za-z0-9])(?:(?:sk|pk|rk|svc)[-_][\w*-]{6,}|(?:gsk|xai|ghp|gho|ghu|ghs|github_pat|glpat|nvapi|pplx|r8|hf|xox[abprs])[-_](?=[\w-]*\d)[\w-]{12,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}(?:\.[\w-]+)*)/g;
const longRun = /[A-Za-z0-9+/_=-]{20,}/g;

function withoutSecrets(text: string): string {
  return text
    .replace(url, address)
    .replace(authorization, (_text, bearer?: string, other = '') => `${bearer ?? other} ${secret}`)
    .replace(named, (_text, name: string, between: string) => `${name}${between}${secret}`)
    .replace(prefixed, secret)
    .replace(longRun, (run) => (isRandom(run) ? secret : run));
}

/**
 * Whether it looks random (base64, hexadecimal): capitals, small letters and digits alternate far more often than in a name of a model,
 * class or field.
 */
function isRandom(run: string): boolean {
  if (/[0-9a-f]{32,}|[0-9A-F]{32,}/.test(run)) return true;
  const unbroken = /[A-Za-z0-9]{24,}/.exec(run)?.[0] ?? '';
  if (/[A-Za-z]/.test(unbroken) && (unbroken.match(/\d+/g) ?? []).length >= 3) return true;
  const kinds = run
    .replace(/[^A-Za-z0-9]+/g, ' ')
    .replace(/\d/g, '0')
    .replace(/[A-Z]/g, 'A')
    .replace(/[a-z]/g, 'a');
  const pairs = [...kinds.slice(1)].map((kind, index) => [kinds[index], kind]).filter((pair) => !pair.includes(' '));
  const changes = pairs.filter(([one, other]) => one !== other).length;
  return pairs.length >= 15 && changes / pairs.length >= 0.35;
}

const windowsPath = /(?<![A-Za-z0-9])[A-Za-z]:[\\/][^\s"'<>|]*|\\\\[\w.-]+\\[^\s"'<>|]+/g;
const unixPath = /(?<![\w)\]}>.:/~*-])~?(?:\/[\w.@+%~-]+){2,}\/?|(?<![\w)\]}>.:/~*-])~?\/[\w@+%~-]+\.[\w.]+/g;
/** Fields of requests, which a message may name by their path. */
const fields = new Set(endpoints.flatMap(({ request }) => [...request.fields.published]));
const apiPath = /^\/v\d+(?:\/[a-z_]+){1,2}$/;

/** Removes absolute paths, except those of this API and of fields (`/messages/0/content`, RFC 6901). */
function withoutPaths(text: string): string {
  return text
    .replace(windowsPath, path)
    .replace(unixPath, (found) => (apiPath.test(found) || fields.has(found.split('/')[1] ?? '') ? found : path));
}

const withUser = /[^\s:@/"']+:[^\s@/"']+@[\w.-]+(?::\d{1,5})?/g;
const bracketed = /\[([^\]\s]{2,64})\](?::\d{1,5})?/g;
const colonsAndDigits = /(?<![\w:.])[0-9a-f:.]*:[0-9a-f:.]*[0-9a-f](?:%\w+)?(?!\w)/gi;
const ipv4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b/g;
const hostAndPort = /(?<![\w.-])(?=[\w.-]*[a-z])[\w-]+(?:\.[\w-]+)*:(?:80|443|\d{4,5})\b/gi;
/** Names with a common ending of host names. Not any dotted word, because paths of fields have dots, too. */
const hostName =
  /(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:internal|local|lan|localdomain|cluster|svc|corp|home|com|net|org|io|ai|dev|cloud)\b/gi;

/** Removes addresses. Times and field paths stay. */
export function withoutAddresses(text: string): string {
  return text
    .replace(url, address)
    .replace(withUser, address)
    .replace(bracketed, (found, inner: string) => (isIPv6(inner) ? address : found))
    .replace(colonsAndDigits, (found) => (/\d/.test(found) && isIPv6(found) ? address : found))
    .replace(ipv4, address)
    .replace(hostAndPort, address)
    .replace(hostName, address);
}
