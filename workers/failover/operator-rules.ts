import type { Rule } from './rule.ts';

/**
 * The operator's own account at a backend: its key, its credit, its region. Whole sentences only: a message of a client that a backend
 * quotes must pause nothing (contract.md#ms5-the-operators-account).
 */
const refusesAccount = { outcome: 'failed', statuses: [400, 429], evidence: 'operator, if two' } as const;

export const operatorRules: readonly Rule[] = [
  {
    id: 'moderation',
    engine: 'OpenRouter 2026-11, OpenAI API',
    outcome: 'refused',
    statuses: [403],
    kinds: ['content_policy_violation', 'content_filter', 'moderation_blocked', 'moderation', 'flagged'],
    example: { fault: 'status', status: 403, kinds: ['content_policy_violation'], words: 'The prompt was flagged.' },
  },
  {
    id: 'moderation-by-words',
    engine: 'OpenRouter 2026-11',
    outcome: 'refused',
    statuses: [403],
    sentence: /\b(?:requires moderation|was flagged|flagged (?:for|by)|content (?:policy|moderation))/i,
    example: { fault: 'status', status: 403, words: 'The model requires moderation. Your input was flagged.' },
  },
  {
    id: 'key-or-payment',
    engine: 'any',
    outcome: 'failed',
    statuses: [401, 402, 403],
    evidence: 'operator',
    example: { fault: 'status', status: 401, kinds: ['invalid_api_key'], words: 'Incorrect API key provided.' },
  },
  {
    id: 'account-by-code',
    engine: 'OpenAI API, Azure OpenAI, Anthropic, DeepSeek, Moonshot, DashScope, Volcengine Ark, 2026-11',
    ...refusesAccount,
    kinds: [
      ...[
        'insufficient_quota',
        'billing_hard_limit_reached',
        'billing_not_active',
        'billing_error',
        'account_deactivated',
      ],
      ...[
        'insufficient_balance',
        'insufficient_credits',
        'exceeded_current_quota_error',
        'accountoverdueerror',
        'arrearage',
      ],
      ...['invalid_api_key', 'access_terminated', 'authentication_error', 'permission_error', 'api_key_invalid'],
      ...['unsupported_country_region_territory', 'failed_precondition', 'quotaexceeded', 'quota_exceeded'],
    ],
    example: { fault: 'status', status: 429, kinds: ['insufficient_quota'], words: 'You exceeded your current quota.' },
  },
  {
    id: 'credit-anthropic',
    engine: 'Anthropic 2026-11',
    ...refusesAccount,
    sentence:
      /^your credit balance is too low to access the (?:anthropic |claude )?api\. please go to plans & billing to upgrade or purchase credits\.$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error'],
      words:
        'Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.',
    },
  },
  {
    id: 'spending-limit-anthropic',
    engine: 'Anthropic 2026-11',
    ...refusesAccount,
    sentence:
      /^you have reached your specified (?:workspace )?api usage limits\. you will regain access on \d{4}-\d{2}-\d{2} at \d{2}:\d{2} utc\.$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error'],
      words: 'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
    },
  },
  {
    id: 'key-gemini',
    engine: 'Gemini API 2026-11',
    ...refusesAccount,
    sentence: /^(?:api key not valid\. please pass a valid api key\.|api key expired\. please renew the api key\.)$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_argument'],
      words: 'API key not valid. Please pass a valid API key.',
    },
  },
  {
    id: 'region-gemini',
    engine: 'Gemini API 2026-11',
    ...refusesAccount,
    sentence: /^user location is not supported for the api use\.$/i,
    example: { fault: 'status', status: 400, words: 'User location is not supported for the API use.' },
  },
];
