"""Cards on the bus as sysfs lists them."""

from llmgw_agent.parse.pci_bus import BusCard, cards


def uevent(pci_class: str, pci_id: str, driver: str | None = None) -> str:
    first = "" if driver is None else f"DRIVER={driver}\n"
    return f"{first}PCI_CLASS={pci_class}\nPCI_ID={pci_id}\nPCI_SLOT_NAME=0000:00:00.0\n"


def test_cards_of_nvidia_are_found_with_and_without_a_driver():
    listing = {
        "0008:01:00.0/uevent": uevent("30200", "10DE:2941", "nvidia"),
        "0000:19:00.0/uevent": uevent("30000", "10DE:2204"),
        "0000:19:00.1/uevent": uevent("40300", "10DE:1AEF", "snd_hda_intel"),
        "0000:83:00.0/uevent": uevent("68000", "10DE:22A3", "nvidia-nvswitch"),
        "0000:00:02.0/uevent": uevent("30000", "1A03:2000", "ast"),
    }
    assert cards(listing) == (
        BusCard(address="0000:19:00.0", pci="0000:19:00"),
        BusCard(address="0008:01:00.0", pci="0008:01:00", driver="nvidia"),
    )


def test_what_is_not_a_device_costs_itself():
    assert (
        cards({"odd/uevent": uevent("30200", "10DE:1"), "0000:01:00.0/uevent": "PCI_ID=10DE:1"})
        == ()
    )
