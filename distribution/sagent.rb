# A Homebrew formula. Whoever publishes sagent sets homepage, url and sha256; until then it builds from a checkout:
#   brew install --HEAD --formula distribution/sagent.rb
class Sagent < Formula
  include Language::Python::Virtualenv

  desc "Coding agents on any model: a terminal program, a Unix filter and a Python library"
  homepage "https://sagent.example/source"
  license "Apache-2.0"
  head "file://#{File.expand_path("..", __dir__)}", using: :git, branch: "main"

  depends_on "python@3.13"
  depends_on "bubblewrap" if OS.linux?

  def install
    virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "ensurepip"
    system libexec/"bin/python", "-m", "pip", "install", "--constraint", "constraints.txt", buildpath
    bin.install_symlink libexec/"bin/sagent"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sagent --version") unless head?
    assert_match "OK", shell_output("#{bin}/sagent demo")
  end
end
