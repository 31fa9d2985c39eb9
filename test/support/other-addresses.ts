/** Settings of a service whose console and documentation have other addresses than its API, with a client id that must be escaped. */
export const otherAddresses = {
  CONSOLE_URL: 'https://console.example/some/where/',
  CONSOLE_CLIENT_ID: 'a"b<c>',
  DOCS_URL: 'https://docs.example.com',
};
